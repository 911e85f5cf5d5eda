import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Address } from "../shared/address.tsx";
import type { Failure } from "../shared/ask.ts";
import { Avatar } from "../shared/avatar.tsx";
import { FailureNotice, Notice } from "../shared/notice.tsx";
import { Ago } from "../shared/time.tsx";
import { useLongList } from "../shared/use-long-list.ts";
import { Scope, When } from "./delegation-details.tsx";
import { HistoryList } from "./history-list.tsx";
import type { ActiveDelegation, Block, DelegationPage, HistoryPage, Network } from "./json.ts";
import { addressOf } from "./location.ts";
import { explorerLinks } from "./use-networks.ts";
import { countLabel } from "./words.ts";

/** As many as the service gives at a time: one question for a screen or several. */
const PAGE_LENGTH = 50;

export type WalletViewName = "in" | "out" | "history";

type Props = { wallet: string; network: Network; view: WalletViewName };

const VIEWS: Record<WalletViewName, { label: string; about: string }> = {
  in: { label: "Incoming", about: "This wallet may act for these." },
  out: { label: "Outgoing", about: "These may act for this wallet." },
  history: { label: "History", about: "Every delegation from or to this wallet that was made, changed or revoked." },
};

/** A wallet's delegations, or its history. */
export const WalletView = ({ wallet, network, view }: Props) => (
  <section class="wallet" aria-labelledby="wallet-title">
    <WalletHeader wallet={wallet} network={network} view={view} />
    {view === "history" ? (
      <History key={`${network.chainId} ${wallet}`} wallet={wallet} network={network} />
    ) : (
      <Delegations key={`${network.chainId} ${wallet} ${view}`} wallet={wallet} network={network} direction={view} />
    )}
  </section>
);

const WalletHeader = ({ wallet, network, view }: Props) => {
  const outside = explorerLinks(network).address(wallet);
  return (
    <header class="wallet-header">
      <Avatar address={wallet} size={52} />
      <div>
        <h2 id="wallet-title">
          <Address value={wallet} what="wallet" whole />
        </h2>
        <p class="wallet-network">
          on {network.name}
          {outside && (
            <>
              {" · "}
              <a href={outside} rel="noreferrer">
                see it in the block explorer
              </a>
            </>
          )}
        </p>
      </div>
      <nav class="views" aria-label="Views of this wallet">
        <ul>
          {(["in", "out", "history"] as const).map((name) => (
            <li key={name}>
              <a
                href={addressOf({ wallet, chainId: network.chainId, view: name })}
                aria-current={name === view ? "page" : undefined}
              >
                {VIEWS[name].label}
              </a>
            </li>
          ))}
        </ul>
      </nav>
    </header>
  );
};

const Delegations = ({ wallet, network, direction }: { wallet: string; network: Network; direction: "in" | "out" }) => {
  const path = `/explorer/delegations/${wallet}?chainId=${network.chainId}&direction=${direction}&limit=${PAGE_LENGTH}`;
  const list = useLongList<DelegationPage>(path);
  const delegations = list.pages.flatMap((page) => page.delegations);
  return (
    <LongList
      {...list}
      about={VIEWS[direction].about}
      count={delegations.length}
      said={countLabel(delegations.length, "delegation", "delegations")}
      network={network}
      block={list.pages[0]?.block}
      nothing={
        <Notice title="No delegations">
          <p>
            {direction === "in"
              ? `No wallet on ${network.name} lets this one act for it.`
              : `This wallet lets no other one on ${network.name} act for it.`}{" "}
            <a
              href={addressOf({
                wallet,
                chainId: network.chainId,
                view: direction === "in" ? "out" : "in",
              })}
            >
              {direction === "in" ? "Look at outgoing ones" : "Look at incoming ones"}
            </a>{" "}
            or at its <a href={addressOf({ wallet, chainId: network.chainId, view: "history" })}>history</a>.
          </p>
        </Notice>
      }
    >
      <ul class="rows">
        {delegations.map((delegation) => (
          <li key={keyOf(delegation)} class="row">
            <Party
              address={direction === "in" ? delegation.from : delegation.to}
              network={network}
              view={direction === "in" ? "out" : "in"}
            />
            <Scope delegation={delegation} network={network} />
            <When place={delegation.since} network={network} />
            <Registry name={delegation.registry} />
          </li>
        ))}
      </ul>
    </LongList>
  );
};

const keyOf = ({ registry, type, tokenStandard, from, to, contract, tokenId, rights }: ActiveDelegation) =>
  [registry, type, tokenStandard, from, to, contract, tokenId, rights].join();

const History = ({ wallet, network }: { wallet: string; network: Network }) => {
  const path = `/explorer/history/${wallet}?chainId=${network.chainId}&limit=${PAGE_LENGTH}`;
  const list = useLongList<HistoryPage>(path);
  const changes = list.pages.flatMap((page) => page.changes);
  return (
    <LongList
      {...list}
      about={VIEWS.history.about}
      count={changes.length}
      said={countLabel(changes.length, "change", "changes")}
      network={network}
      block={list.pages[0]?.block}
      nothing={
        <Notice title="No history">
          <p>No delegation from or to this wallet was ever made on {network.name}.</p>
        </Notice>
      }
    >
      <HistoryList changes={changes} network={network} />
    </LongList>
  );
};

/** Which of the two it is in. */
export const Registry = ({ name }: { name: string }) => (
  <span class="registry" title={`In the ${name} registry`}>
    {name}
    <span class="unseen"> registry</span>
  </span>
);

/** The wallet at the other end: it leads to its own view. */
export const Party = ({ address, network, view }: { address: string; network: Network; view: WalletViewName }) => (
  <div class="party">
    <Avatar address={address} />
    <Address value={address} href={addressOf({ wallet: address, chainId: network.chainId, view })} what="wallet" />
  </div>
);

type LongListProps = {
  about: string;
  count: number;
  /** How many there are, in words. */
  said: string;
  network: Network;
  block: Block | undefined;
  next: string | null;
  more: () => void;
  failure: Failure | null;
  isLoading: boolean;
  nothing: ComponentChildren;
  children: ComponentChildren;
};

/** A list with what belongs to one: what it is true at, more of it on the way down, and what went wrong. */
const LongList = (props: LongListProps) => {
  const { about, count, said, network, block, next, more, failure, isLoading, nothing, children } = props;
  const end = useRef<HTMLDivElement>(null);
  const canLoad = next !== null && !isLoading && failure === null;
  useEffect(() => {
    const { current } = end;
    if (!current || !canLoad) return;
    // Before the end is in sight.
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && more(), { rootMargin: "400px" });
    observer.observe(current);
    return () => observer.disconnect();
  }, [canLoad, more]);
  const outcome = failure ? "" : isLoading ? "Loading" : `${said}${next === null ? "" : ", and there are more"}`;
  return (
    <>
      <div class="list-head">
        <p>{about}</p>
        {block && <Freshness block={block} network={network} />}
      </div>
      <p class="unseen" role="status">
        {outcome}
      </p>
      {count > 0 ? children : !isLoading && !failure && nothing}
      {isLoading && <Skeleton rows={count > 0 ? 1 : 4} />}
      {failure && <FailureNotice failure={failure} again={more} />}
      <div ref={end} class="list-end">
        {canLoad && (
          <button type="button" class="button" onClick={more}>
            Load more
          </button>
        )}
        {count > 0 && next === null && !isLoading && !failure && <p class="quiet">{said}</p>}
      </div>
    </>
  );
};

/** The block that an answer is true at. */
export const Freshness = ({ block, network }: { block: Block; network: Network }) => {
  const href = explorerLinks(network).block(block.number);
  const number = `block ${block.number.toLocaleString("en")}`;
  return (
    <p class="freshness">
      As of {href ? <a href={href}>{number}</a> : number}, <Ago timestamp={block.timestamp} />
    </p>
  );
};

const Skeleton = ({ rows }: { rows: number }) => (
  <div class="rows" aria-hidden="true">
    {Array.from({ length: rows }, (_, place) => (
      <div key={place} class="row skeleton" />
    ))}
  </div>
);
