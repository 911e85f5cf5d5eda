import { useEffect } from "preact/hooks";
import { checksumAddress } from "viem";
import type { Address, Network } from "../../client/src/index.ts";
import { shortenHex } from "../shared/address.tsx";
import { FailureNotice, Notice } from "../shared/notice.tsx";
import { CheckView } from "./check-view.tsx";
import {
  buildUrl,
  type Filter,
  readFilter,
  readViewName,
  toAddress,
  useQuery,
  type WalletViewName,
} from "./location.ts";
import { isAnswerable, NetworkNotice } from "./network-notice.tsx";
import { describeBadAddress, isAddress, SearchForm } from "./search-form.tsx";
import { StartView } from "./start-view.tsx";
import { createChoice, useNetworks } from "./use-networks.ts";
import { WalletView } from "./wallet-view.tsx";

export const App = () => {
  const query = useQuery();
  const view = readViewName(query);
  const { result, retry, networks, network } = useNetworks(query.get("chainId"));
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
  networks: readonly Network[] | null;
  network: Network | null;
};

const Explorer = ({ query, view, networks, network }: ExplorerProps) => {
  const input = query.get("wallet")?.trim() ?? "";
  const wallet = isAddress(input) ? checksumAddress(toAddress(input)) : null;
  const isAll = query.get("chainId") === "all";
  const filter = readFilter(query);
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
      <SearchForm
        networks={networks}
        chainId={isAll ? "all" : network?.chainId}
        wallet={wallet ?? input}
        view={view}
        filter={filter}
      />
      {networks && (
        <ExplorerContent
          wallet={wallet}
          input={input}
          view={view}
          networks={networks}
          network={network}
          isAll={isAll}
          filter={filter}
        />
      )}
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
  wallet: Address | null;
  /** Text in the URL; `wallet` is null if it is no address. */
  input: string;
  view: WalletViewName;
  networks: readonly Network[];
  network: Network | null;
  isAll: boolean;
  filter: Filter;
};

const ExplorerContent = ({ wallet, input, view, networks, network, isAll, filter }: ExplorerContentProps) => {
  if (wallet === null && input !== "") {
    return (
      <Notice title="This is not a wallet address" tone="bad">
        <p>{describeBadAddress(input)}</p>
      </Notice>
    );
  }
  if (network === null || (!isAll && !isAnswerable(network))) {
    const urlOn = (chainId: number) => buildUrl({ wallet, chainId, view: wallet && view });
    return <NetworkNotice network={network} networks={networks} urlOn={urlOn} />;
  }
  if (wallet === null) return <StartView networks={networks} />;
  return <WalletView wallet={wallet} choice={createChoice(networks, network, isAll)} filter={filter} view={view} />;
};

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
