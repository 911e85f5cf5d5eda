import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Page } from "../../client/src/index.ts";
import type { FetchFailure } from "../shared/fetch-json.ts";
import { FailureNotice, Notice } from "../shared/notice.tsx";
import { AsOfBlock } from "./delegation-details.tsx";
import type { NetworkChoice } from "./use-networks.ts";

type PagedListProps = {
  about: string;
  count: number;
  countLabel: string;
  choice: NetworkChoice;
  pages: readonly Page<unknown>[];
  next: string | null;
  loadMore: () => void;
  failure: FetchFailure | null;
  isLoading: boolean;
  /** Shown when the list is empty, and no network is missing. */
  empty: ComponentChildren;
  children: ComponentChildren;
};

/** A list with its block and failures, which loads more on the way down. */
export const PagedList = (props: PagedListProps) => {
  const { about, count, countLabel, choice, pages, next, loadMore, failure, isLoading, empty, children } = props;
  const [page] = pages;
  const missing = findMissing(pages);
  const canLoad = next !== null && !isLoading && failure === null;
  const end = useLoadOnScroll(canLoad, loadMore);
  const status = failure ? "" : isLoading ? "Loading" : `${countLabel}${next === null ? "" : ", and there are more"}`;
  return (
    <>
      <div class="list-head">
        <p>{about}</p>
        {page && <AsOf page={page} choice={choice} />}
      </div>
      {missing.length > 0 && <Unanswered missing={missing} choice={choice} />}
      <p class="visually-hidden" role="status">
        {status}
      </p>
      {count > 0 ? children : next === null && !isLoading && !failure && missing.length === 0 && empty}
      {isLoading && <SkeletonRows rows={count > 0 ? 1 : 4} />}
      {failure && <FailureNotice failure={failure} retry={loadMore} />}
      <div ref={end} class="list-end">
        {canLoad && (
          <button type="button" class="button" onClick={loadMore}>
            Load more
          </button>
        )}
        {count > 0 && next === null && !isLoading && !failure && <p class="quiet">{countLabel}</p>}
      </div>
    </>
  );
};

/** The block of the answer, or the networks that it is about. */
const AsOf = ({ page, choice }: { page: Page<unknown>; choice: NetworkChoice }) => {
  const blocks = Object.entries(page.blocks);
  const [only] = blocks;
  if (only && blocks.length === 1) return <AsOfBlock block={only[1]} network={choice.find(Number(only[0]))} />;
  return <p class="freshness">Of {blocks.length} networks, each as of its own block</p>;
};

type Missing = Page<unknown>["unanswered"];

/** Finds the networks that one of the pages is without, each with its first reason. */
const findMissing = (pages: readonly Page<unknown>[]): Missing => {
  const unanswered = pages.flatMap((page) => page.unanswered).toReversed();
  return [...new Map(unanswered.map((network) => [network.chainId, network])).values()].toReversed();
};

/** Names the networks that the list is without. */
const Unanswered = ({ missing, choice }: { missing: Missing; choice: NetworkChoice }) => (
  <Notice title="Some networks are missing" tone="poor">
    <ul>
      {missing.map(({ chainId, problem }) => (
        <li key={chainId}>
          {chainId !== null && <strong>{choice.find(chainId).name}: </strong>}
          {problem.detail}
        </li>
      ))}
    </ul>
  </Notice>
);

/** Loads more 400 pixels before the end of the list is visible. @returns a ref for the end of the list */
const useLoadOnScroll = (canLoad: boolean, loadMore: () => void) => {
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const { current } = end;
    if (!current || !canLoad) return;
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && loadMore(), {
      rootMargin: "400px",
    });
    observer.observe(current);
    return () => observer.disconnect();
  }, [canLoad, loadMore]);
  return end;
};

const SkeletonRows = ({ rows }: { rows: number }) => (
  <div class="rows" aria-hidden="true">
    {Array.from({ length: rows }, (_, index) => (
      <div key={index} class="row skeleton" />
    ))}
  </div>
);
