import type { WalletChange } from "../../client/src/index.ts";
import { OtherWallet, Registry, Scope, TransactionTime } from "./delegation-details.tsx";
import { KINDS } from "./labels.ts";
import type { NetworkChoice } from "./use-networks.ts";

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });

/** Changes by day, newest first. */
export const HistoryList = ({ changes, choice }: { changes: readonly WalletChange[]; choice: NetworkChoice }) => (
  <>
    {groupByDay(changes).map(({ name, changes }) => (
      <section key={name} class="day" aria-label={name}>
        <h3>{name}</h3>
        <ol class="timeline">
          {changes.map((change) => (
            <li key={keyOf(change)} data-kind={change.kind}>
              <p class="action">
                <strong>{KINDS[change.kind]}</strong> <Direction change={change} />
              </p>
              <OtherWallet
                address={change.direction === "incoming" ? change.vault : change.delegate}
                chainId={choice.chainId}
                view={change.direction === "incoming" ? "out" : "in"}
              />
              <Scope delegation={change} network={choice.find(change.chainId)} />
              <TransactionTime transaction={change} network={choice.find(change.chainId)} />
              <Registry
                name={change.registry}
                network={choice.chainId === "all" ? choice.find(change.chainId) : null}
              />
            </li>
          ))}
        </ol>
      </section>
    ))}
  </>
);

const keyOf = ({ chainId, blockNumber, logIndex, ordinal }: WalletChange) =>
  [chainId, blockNumber, logIndex, ordinal].join();

/** Changes arrive in order, so those of a day are adjacent. */
const groupByDay = (changes: readonly WalletChange[]) => {
  const days: { name: string; changes: WalletChange[] }[] = [];
  for (const change of changes) {
    const name = DAY.format(Number(change.blockTimestamp) * 1000);
    const last = days.at(-1);
    if (last?.name === name) last.changes.push(change);
    else days.push({ name, changes: [change] });
  }
  return days;
};

const Direction = ({ change: { vault, delegate, direction } }: { change: WalletChange }) => {
  if (vault === delegate) return <span class="quiet">to itself</span>;
  return (
    <span class="direction" title={direction === "incoming" ? "Incoming" : "Outgoing"}>
      <span aria-hidden="true">{direction === "incoming" ? "←" : "→"}</span>
      <span class="visually-hidden">{direction === "incoming" ? "incoming, from" : "outgoing, to"}</span>
    </span>
  );
};
