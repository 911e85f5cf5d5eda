import { useState } from "preact/hooks";
import type { Delegate, Address as Hex, Vault, WalletDelegation, WalletOptions } from "../../client/src/index.ts";
import { Address } from "../shared/address.tsx";
import { Avatar } from "../shared/avatar.tsx";
import { countLabel } from "../shared/labels.ts";
import { Notice } from "../shared/notice.tsx";
import { toBlock } from "../shared/registry.ts";
import { useChanges } from "../shared/use-changes.ts";
import { usePagedList } from "../shared/use-paged-list.ts";
import { OtherWallet, Registry, Scope, TransactionTime } from "./delegation-details.tsx";
import { FilterForm } from "./filter-form.tsx";
import { HistoryList } from "./history-list.tsx";
import { buildUrl, type Filter, toScope, type WalletViewName } from "./location.ts";
import { PagedList } from "./paged-list.tsx";
import { buildExplorerUrls, type NetworkChoice } from "./use-networks.ts";

const PAGE_LENGTH = 50;

type Direction = "in" | "out";
type ListProps = { wallet: Hex; choice: NetworkChoice; filter: Filter };
type WalletViewProps = ListProps & { view: WalletViewName };

const VIEWS: Record<WalletViewName, { label: string; about: string }> = {
  in: { label: "Acts for", about: "This wallet may act for these wallets." },
  out: { label: "Represented by", about: "These wallets may act for this wallet." },
  history: { label: "History", about: "Every delegation from or to this wallet that was made, changed or revoked." },
};

/** A wallet's delegations, or its history. */
export const WalletView = ({ wallet, choice, filter, view }: WalletViewProps) => {
  const list = { wallet, choice, filter };
  const { version, isLive, hasChanged, update } = useVersion(list);
  return (
    <section class="wallet" aria-labelledby="wallet-title">
      <WalletHeader {...list} view={view} />
      <FilterForm key={JSON.stringify([choice.chainId, wallet, view, filter])} {...list} view={view} />
      <div class="news" role="status" data-live={isLive}>
        {hasChanged && (
          <p>
            Delegations of this wallet may have changed.{" "}
            <button type="button" class="button" onClick={update}>
              Update
            </button>
          </p>
        )}
      </div>
      {view === "history" ? (
        <History key={version} {...list} />
      ) : (
        <Delegations key={`${view} ${version}`} {...list} direction={view} />
      )}
    </section>
  );
};

/** Tells when the lists of a wallet may have changed: those of a past time do not. */
const useVersion = ({ wallet, choice: { chainId }, filter }: ListProps) => {
  const isNow = filter.block === "" && filter.time === "";
  const network = chainId === "all" ? "" : `&chainId=${chainId}`;
  const query = isNow ? `wallet=${wallet}${network}` : null;
  const [state, setState] = useState({ query, version: 0, newest: 0 });
  const { version, newest } = state.query === query ? state : { version: 0, newest: 0 };
  const isLive = useChanges(query, () => setState({ query, version, newest: newest + 1 }));
  return { version, isLive, hasChanged: newest > version, update: () => setState({ query, version: newest, newest }) };
};

const WalletHeader = ({ wallet, choice, filter, view }: WalletViewProps) => {
  const { chainId } = choice;
  const explorerUrl = chainId === "all" ? undefined : buildExplorerUrls(choice.find(chainId)).address(wallet);
  return (
    <header class="wallet-header">
      <Avatar address={wallet} size={52} />
      <div>
        <h2 id="wallet-title">
          <Address value={wallet} what="wallet" isWhole />
        </h2>
        <p class="wallet-network">
          on {choice.name}
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
                href={buildUrl({ wallet, chainId, view: name, ...filter })}
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

/** A list of all networks goes without those that have no answer, and names them. A block is of one network. */
const buildOptions = ({ chainId }: NetworkChoice, { block, time }: Filter): WalletOptions => {
  if (chainId !== "all") return { chainId, limit: PAGE_LENGTH, block: toBlock(block) };
  const timestamp = time === "" ? undefined : Math.floor(Date.parse(`${time}Z`) / 1000);
  if (Number.isNaN(timestamp)) throw new RangeError("time has to be a date and a time, such as 2026-01-31T12:00.");
  return { partial: true, limit: PAGE_LENGTH, timestamp };
};

/** Names a list: by all that it depends on. */
const nameList = ({ wallet, choice, filter }: ListProps, name: string) =>
  JSON.stringify([name, wallet, choice.chainId, filter]);

/** Lists all delegations, or those that let a wallet act with a contract or a right. */
const useDelegations = (props: ListProps, direction: Direction) => {
  const { wallet, choice, filter } = props;
  const isLimited = filter.contract !== "" || filter.rights !== "";
  const list = usePagedList<Vault | Delegate | WalletDelegation>(nameList(props, direction), (registry, from) => {
    const options = { ...buildOptions(choice, filter), ...from };
    if (!isLimited) {
      return registry.delegations(wallet, { ...options, direction: direction === "in" ? "incoming" : "outgoing" });
    }
    const scope = { ...options, ...toScope(filter) };
    return direction === "in" ? registry.vaults(wallet, scope) : registry.delegates(wallet, scope);
  });
  return {
    list,
    delegations: list.pages.flatMap(({ rows }) =>
      rows.flatMap((row) => ("delegations" in row ? row.delegations : row)),
    ),
  };
};

const Delegations = ({ direction, ...props }: ListProps & { direction: Direction }) => {
  const { choice } = props;
  const { list, delegations } = useDelegations(props, direction);
  return (
    <PagedList
      {...list}
      about={VIEWS[direction].about}
      count={delegations.length}
      countLabel={countLabel(delegations.length, "delegation", "delegations")}
      choice={choice}
      empty={<NoDelegations {...props} direction={direction} />}
    >
      <ul class="rows">
        {delegations.map((delegation) => (
          <li key={Object.values(delegation).join()} class="row">
            <OtherWallet
              address={direction === "in" ? delegation.vault : delegation.delegate}
              chainId={choice.chainId}
              view={direction === "in" ? "out" : "in"}
            />
            <Scope delegation={delegation} network={choice.find(delegation.chainId)} />
            <TransactionTime transaction={delegation} network={choice.find(delegation.chainId)} />
            <Registry
              name={delegation.registry}
              network={choice.chainId === "all" ? choice.find(delegation.chainId) : null}
            />
          </li>
        ))}
      </ul>
    </PagedList>
  );
};

const NoDelegations = ({ wallet, choice, filter, direction }: ListProps & { direction: Direction }) => {
  const urlOf = (view: WalletViewName) => buildUrl({ wallet, chainId: choice.chainId, view });
  const { contract, tokenId, rights } = filter;
  const scope = tokenId !== "" ? " with this token" : contract !== "" ? " with this contract" : "";
  const what = rights === "" ? scope : `${scope} by this right`;
  return (
    <Notice title="No delegations">
      <p>
        {direction === "in"
          ? `No wallet on ${choice.name} lets this one act for it${what}.`
          : `This wallet lets no other wallet on ${choice.name} act for it${what}.`}{" "}
        See {direction === "in" ? "who" : "whom"}{" "}
        <a href={urlOf(direction === "in" ? "out" : "in")}>{direction === "in" ? "represents it" : "it acts for"}</a> or
        its <a href={urlOf("history")}>history</a>.
      </p>
    </Notice>
  );
};

const History = (props: ListProps) => {
  const { wallet, choice, filter } = props;
  const list = usePagedList(nameList(props, "history"), (registry, from) =>
    registry.history(wallet, { ...buildOptions(choice, filter), ...from }),
  );
  const isNow = (choice.chainId === "all" ? filter.time : filter.block) === "";
  const changes = list.pages.flatMap(({ rows }) => rows);
  return (
    <PagedList
      {...list}
      about={VIEWS.history.about}
      count={changes.length}
      countLabel={countLabel(changes.length, "change", "changes")}
      choice={choice}
      empty={
        <Notice title="No history">
          <p>
            {isNow
              ? `No delegation from or to this wallet was ever made on ${choice.name}.`
              : `No delegation from or to this wallet had been made on ${choice.name} by then.`}
          </p>
        </Notice>
      }
    >
      <HistoryList changes={changes} choice={choice} />
    </PagedList>
  );
};
