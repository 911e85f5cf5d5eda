import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { FetchFailure } from "../shared/fetch-json.ts";
import { FailureNotice } from "../shared/notice.tsx";
import { AsOfBlock } from "./delegation-details.tsx";
import type { BlockJson, NetworkJson } from "./json.ts";

type PagedListProps = {
  about: string;
  count: number;
  countLabel: string;
  network: NetworkJson;
  block: BlockJson | undefined;
  next: string | null;
  loadMore: () => void;
  failure: FetchFailure | null;
  isLoading: boolean;
  /** Shown when the list is empty. */
  empty: ComponentChildren;
  children: ComponentChildren;
};

/** A list with its block and failures, which loads more on the way down. */
export const PagedList = (props: PagedListProps) => {
  const { about, count, countLabel, network, block, next, loadMore, failure, isLoading, empty, children } = props;
  const canLoad = next !== null && !isLoading && failure === null;
  const end = useLoadOnScroll(canLoad, loadMore);
  const status = failure ? "" : isLoading ? "Loading" : `${countLabel}${next === null ? "" : ", and there are more"}`;
  return (
    <>
      <div class="list-head">
        <p>{about}</p>
        {block && <AsOfBlock block={block} network={network} />}
      </div>
      <p class="visually-hidden" role="status">
        {status}
      </p>
      {count > 0 ? children : !isLoading && !failure && empty}
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
