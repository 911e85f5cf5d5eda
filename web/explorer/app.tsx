import { useEffect } from "preact/hooks";
import { checksumAddress } from "viem";
import { FailureNotice, Notice } from "../shared/notice.tsx";
import { Ago } from "../shared/time.tsx";
import { CheckView } from "./check-view.tsx";
import type { Network } from "./json.ts";
import { addressOf, useQuery, viewOf } from "./location.ts";
import { NetworkNotice, networkTrouble } from "./network-notice.tsx";
import { complaint, isAddress, SearchForm } from "./search-form.tsx";
import { isIndexed, useNetworks } from "./use-networks.ts";
import { WalletView, type WalletViewName } from "./wallet-view.tsx";

export const App = () => {
  const query = useQuery();
  const view = viewOf(query);
  const chainId = query.get("chainId");
  const { answer, again, networks, network } = useNetworks(chainId === null ? null : Number(chainId));
  useTitle(query);
  const failure = answer !== null && answer.kind !== "answered" ? answer : null;
  return (
    <div class="column">
      {view === "check" ? (
        <CheckView query={query} networks={networks} network={network} />
      ) : (
        <Explorer query={query} view={view} networks={networks} network={network} />
      )}
      {failure && <FailureNotice failure={failure} again={again} />}
    </div>
  );
};

type ExplorerProps = {
  query: URLSearchParams;
  view: WalletViewName;
  networks: readonly Network[] | null;
  network: Network | null;
};

const Explorer = ({ query, view, networks, network }: ExplorerProps) => {
  const given = query.get("wallet")?.trim() ?? "";
  const wallet = isAddress(given) ? checksumAddress(`0x${given.slice(2)}`) : null;
  return (
    <>
      {wallet ? (
        <h1 class="unseen">Who may act for a wallet?</h1>
      ) : (
        <header class="hero">
          <div>
            <h1>Who may act for a wallet?</h1>
            <p class="lead">
              A cold wallet stays in its drawer and lets a hot wallet act for it: for everything it holds, one contract,
              or one token. Look up any wallet to see whom it trusts, and who trusts it.
            </p>
          </div>
          <Picture />
        </header>
      )}
      <SearchForm networks={networks} network={network} wallet={wallet ?? given} view={view} />
      {networks && <Shown wallet={wallet} given={given} view={view} networks={networks} network={network} />}
    </>
  );
};

/** A cold wallet, and a hot one within its trust. */
const Picture = () => (
  <svg class="picture" viewBox="0 0 260 170" aria-hidden="true">
    <circle class="cold" cx="92" cy="85" r="76" />
    <circle class="hot" cx="192" cy="85" r="52" />
    <path class="reach" d="M168 85a76 76 0 0 1-11 39.500a52 52 0 0 1 0-79a76 76 0 0 1 11 39.500Z" />
    <text x="76" y="90">
      cold
    </text>
    <text x="206" y="90">
      hot
    </text>
  </svg>
);

type ShownProps = {
  wallet: string | null;
  given: string;
  view: WalletViewName;
  networks: readonly Network[];
  network: Network | null;
};

const Shown = ({ wallet, given, view, networks, network }: ShownProps) => {
  if (wallet === null && given !== "") {
    return (
      <Notice title="This is no wallet" tone="bad">
        <p>{complaint(given)}</p>
      </Notice>
    );
  }
  if (networkTrouble(network) || !network) {
    const hrefOn = (chainId: number) => addressOf({ wallet, chainId, view: wallet && view });
    return <NetworkNotice network={network} networks={networks} hrefOn={hrefOn} />;
  }
  if (wallet === null) return <IndexedNetworks networks={networks} />;
  return <WalletView wallet={wallet} network={network} view={view} />;
};

const STATES: Record<Network["state"], string> = {
  fresh: "up to date",
  behind: "behind its network",
  indexing: "still being indexed",
  unreachable: "out of reach",
  "not-indexed": "not indexed",
};

/** What can be looked up here, and how fresh it is. */
const IndexedNetworks = ({ networks }: { networks: readonly Network[] }) => (
  <section class="networks" aria-labelledby="networks-title">
    <h2 id="networks-title">Indexed here</h2>
    <ul>
      {networks.filter(isIndexed).map(({ chainId, name, state, indexedBlock, progress }) => (
        <li key={chainId} class="card" data-state={state}>
          <strong>{name}</strong>
          <span class="state">{STATES[state]}</span>
          <span class="quiet">
            {indexedBlock ? (
              <>
                Block {indexedBlock.number.toLocaleString("en")}, <Ago timestamp={indexedBlock.timestamp} />
              </>
            ) : (
              progress && `${Math.floor(progress.share * 100)} %`
            )}
          </span>
        </li>
      ))}
    </ul>
  </section>
);

/** The tab's title, and the header's link, tell what is shown. */
const useTitle = (query: URLSearchParams): void => {
  const view = viewOf(query);
  const wallet = query.get("wallet");
  useEffect(() => {
    const about = view === "check" ? "Check" : wallet ? `${wallet.slice(0, 6)}…${wallet.slice(-4)}, ${view}` : null;
    document.title = `${about ? `${about} · ` : ""}Delegation explorer · Delegation registry`;
    const current = view === "check" ? "/?view=check" : "/";
    for (const link of document.querySelectorAll(".site-nav a")) {
      if (link.getAttribute("href") === current) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }, [view, wallet]);
};
