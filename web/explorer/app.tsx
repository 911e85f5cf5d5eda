import { useEffect } from "preact/hooks";
import { checksumAddress } from "viem";
import { shortenHex } from "../shared/address.tsx";
import { FailureNotice, Notice } from "../shared/notice.tsx";
import { TimeAgo } from "../shared/time.tsx";
import { CheckView } from "./check-view.tsx";
import type { NetworkJson } from "./json.ts";
import { buildUrl, readViewName, useQuery, type WalletViewName } from "./location.ts";
import { isAnswerable, NetworkNotice } from "./network-notice.tsx";
import { describeBadAddress, isAddress, SearchForm } from "./search-form.tsx";
import { isIndexed, useNetworks } from "./use-networks.ts";
import { WalletView } from "./wallet-view.tsx";

export const App = () => {
  const query = useQuery();
  const view = readViewName(query);
  const chainId = query.get("chainId");
  const { result, retry, networks, network } = useNetworks(chainId === null ? null : Number(chainId));
  useTitle(query);
  const failure = result !== null && result.kind !== "ok" ? result : null;
  return (
    <div class="column">
      {view === "check" ? (
        <CheckView query={query} networks={networks} network={network} />
      ) : (
        <Explorer query={query} view={view} networks={networks} network={network} />
      )}
      {failure && <FailureNotice failure={failure} retry={retry} />}
    </div>
  );
};

type ExplorerProps = {
  query: URLSearchParams;
  view: WalletViewName;
  networks: readonly NetworkJson[] | null;
  network: NetworkJson | null;
};

const Explorer = ({ query, view, networks, network }: ExplorerProps) => {
  const input = query.get("wallet")?.trim() ?? "";
  const wallet = isAddress(input) ? checksumAddress(`0x${input.slice(2)}`) : null;
  return (
    <>
      {wallet ? (
        <h1 class="visually-hidden">Who may act for a wallet?</h1>
      ) : (
        <header class="hero">
          <div>
            <h1>Who may act for a wallet?</h1>
            <p class="lead">
              A cold wallet stays in its drawer and lets a hot wallet act for it: for everything it holds, one contract,
              or one token. Look up any wallet to see whom it trusts, and who trusts it.
            </p>
          </div>
          <HeroPicture />
        </header>
      )}
      <SearchForm networks={networks} network={network} wallet={wallet ?? input} view={view} />
      {networks && <ExplorerContent wallet={wallet} input={input} view={view} networks={networks} network={network} />}
    </>
  );
};

/** A cold wallet and a hot wallet, overlapping. */
const HeroPicture = () => (
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

type ExplorerContentProps = {
  wallet: string | null;
  /** Text in the URL; `wallet` is null if it is no address. */
  input: string;
  view: WalletViewName;
  networks: readonly NetworkJson[];
  network: NetworkJson | null;
};

const ExplorerContent = ({ wallet, input, view, networks, network }: ExplorerContentProps) => {
  if (wallet === null && input !== "") {
    return (
      <Notice title="This is not a wallet address" tone="bad">
        <p>{describeBadAddress(input)}</p>
      </Notice>
    );
  }
  if (!isAnswerable(network)) {
    const urlOn = (chainId: number) => buildUrl({ wallet, chainId, view: wallet && view });
    return <NetworkNotice network={network} networks={networks} urlOn={urlOn} />;
  }
  if (wallet === null) return <IndexedNetworks networks={networks} />;
  return <WalletView wallet={wallet} network={network} view={view} />;
};

const STATES: Record<NetworkJson["state"], string> = {
  fresh: "up to date",
  behind: "behind its network",
  indexing: "still being indexed",
  unreachable: "cannot be reached",
  "not-indexed": "not indexed",
};

/** The indexed networks with their state. */
const IndexedNetworks = ({ networks }: { networks: readonly NetworkJson[] }) => (
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
                Block {indexedBlock.number.toLocaleString("en")}, <TimeAgo timestamp={indexedBlock.timestamp} />
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

/** Updates the tab's title and the current link of the navigation. */
const useTitle = (query: URLSearchParams): void => {
  const view = readViewName(query);
  const wallet = query.get("wallet");
  useEffect(() => {
    const about = view === "check" ? "Check" : wallet ? `${shortenHex(wallet)}, ${view}` : null;
    document.title = `${about ? `${about} · ` : ""}Delegation explorer · Delegation registry`;
    const current = view === "check" ? "/?view=check" : "/";
    for (const link of document.querySelectorAll(".site-nav a")) {
      if (link.getAttribute("href") === current) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }, [view, wallet]);
};
