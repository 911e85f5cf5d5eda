import { Address } from "../shared/address.tsx";
import { Avatar } from "../shared/avatar.tsx";
import { Notice } from "../shared/notice.tsx";
import { usePagedList } from "../shared/use-paged-list.ts";
import { OtherWallet, Registry, Scope, TransactionTime } from "./delegation-details.tsx";
import { HistoryList } from "./history-list.tsx";
import type { ActiveDelegationJson, ChangePageJson, DelegationPageJson, NetworkJson } from "./json.ts";
import { countLabel } from "./labels.ts";
import { buildUrl, type WalletViewName } from "./location.ts";
import { PagedList } from "./paged-list.tsx";
import { buildExplorerUrls } from "./use-networks.ts";

const PAGE_LENGTH = 50;

type Direction = "in" | "out";
type WalletViewProps = { wallet: string; network: NetworkJson; view: WalletViewName };

const VIEWS: Record<WalletViewName, { label: string; about: string }> = {
  in: { label: "Incoming", about: "This wallet may act for these wallets." },
  out: { label: "Outgoing", about: "These wallets may act for this wallet." },
  history: { label: "History", about: "Every delegation from or to this wallet that was made, changed or revoked." },
};

/** A wallet's delegations, or its history. */
export const WalletView = ({ wallet, network, view }: WalletViewProps) => (
  <section class="wallet" aria-labelledby="wallet-title">
    <WalletHeader wallet={wallet} network={network} view={view} />
    {view === "history" ? (
      <History key={`${network.chainId} ${wallet}`} wallet={wallet} network={network} />
    ) : (
      <Delegations key={`${network.chainId} ${wallet} ${view}`} wallet={wallet} network={network} direction={view} />
    )}
  </section>
);

const WalletHeader = ({ wallet, network, view }: WalletViewProps) => {
  const explorerUrl = buildExplorerUrls(network).address(wallet);
  return (
    <header class="wallet-header">
      <Avatar address={wallet} size={52} />
      <div>
        <h2 id="wallet-title">
          <Address value={wallet} what="wallet" isWhole />
        </h2>
        <p class="wallet-network">
          on {network.name}
          {explorerUrl && (
            <>
              {" · "}
              <a href={explorerUrl} rel="noreferrer">
                view in the block explorer
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
                href={buildUrl({ wallet, chainId: network.chainId, view: name })}
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

type DelegationsProps = { wallet: string; network: NetworkJson; direction: Direction };

const Delegations = ({ wallet, network, direction }: DelegationsProps) => {
  const path = `/explorer/delegations/${wallet}?chainId=${network.chainId}&direction=${direction}&limit=${PAGE_LENGTH}`;
  const list = usePagedList<DelegationPageJson>(path);
  const delegations = list.pages.flatMap((page) => page.delegations);
  return (
    <PagedList
      {...list}
      about={VIEWS[direction].about}
      count={delegations.length}
      countLabel={countLabel(delegations.length, "delegation", "delegations")}
      network={network}
      block={list.pages[0]?.block}
      empty={<NoDelegations wallet={wallet} network={network} direction={direction} />}
    >
      <ul class="rows">
        {delegations.map((delegation) => (
          <li key={keyOf(delegation)} class="row">
            <OtherWallet
              address={direction === "in" ? delegation.from : delegation.to}
              network={network}
              view={direction === "in" ? "out" : "in"}
            />
            <Scope delegation={delegation} network={network} />
            <TransactionTime transaction={delegation.since} network={network} />
            <Registry name={delegation.registry} />
          </li>
        ))}
      </ul>
    </PagedList>
  );
};

const keyOf = ({ registry, type, tokenStandard, from, to, contract, tokenId, rights }: ActiveDelegationJson) =>
  [registry, type, tokenStandard, from, to, contract, tokenId, rights].join();

const NoDelegations = ({ wallet, network, direction }: DelegationsProps) => {
  const urlOf = (view: WalletViewName) => buildUrl({ wallet, chainId: network.chainId, view });
  return (
    <Notice title="No delegations">
      <p>
        {direction === "in"
          ? `No wallet on ${network.name} lets this one act for it.`
          : `This wallet lets no other wallet on ${network.name} act for it.`}{" "}
        See its{" "}
        <a href={urlOf(direction === "in" ? "out" : "in")}>
          {direction === "in" ? "outgoing delegations" : "incoming delegations"}
        </a>{" "}
        or its <a href={urlOf("history")}>history</a>.
      </p>
    </Notice>
  );
};

const History = ({ wallet, network }: { wallet: string; network: NetworkJson }) => {
  const path = `/explorer/history/${wallet}?chainId=${network.chainId}&limit=${PAGE_LENGTH}`;
  const list = usePagedList<ChangePageJson>(path);
  const changes = list.pages.flatMap((page) => page.changes);
  return (
    <PagedList
      {...list}
      about={VIEWS.history.about}
      count={changes.length}
      countLabel={countLabel(changes.length, "change", "changes")}
      network={network}
      block={list.pages[0]?.block}
      empty={
        <Notice title="No history">
          <p>No delegation from or to this wallet was ever made on {network.name}.</p>
        </Notice>
      }
    >
      <HistoryList changes={changes} network={network} />
    </PagedList>
  );
};
