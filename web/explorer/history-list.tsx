import { OtherWallet, Registry, Scope, TransactionTime } from "./delegation-details.tsx";
import type { ChangeJson, NetworkJson } from "./json.ts";

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });

const VERBS: Record<ChangeJson["kind"], string> = { made: "Made", changed: "Changed", revoked: "Revoked" };

/** Changes by day, newest first. */
export const HistoryList = ({ changes, network }: { changes: readonly ChangeJson[]; network: NetworkJson }) => (
  <>
    {groupByDay(changes).map(({ name, changes }) => (
      <section key={name} class="day" aria-label={name}>
        <h3>{name}</h3>
        <ol class="timeline">
          {changes.map((change) => (
            <li key={change.id} data-kind={change.kind}>
              <p class="action">
                <strong>{VERBS[change.kind]}</strong> <Direction change={change} />
              </p>
              <OtherWallet
                address={change.direction === "in" ? change.from : change.to}
                network={network}
                view={change.direction === "in" ? "out" : "in"}
              />
              <Scope delegation={change} network={network} />
              <TransactionTime transaction={change} network={network} />
              <Registry name={change.registry} />
            </li>
          ))}
        </ol>
      </section>
    ))}
  </>
);

/** Changes arrive in order, so those of a day are adjacent. */
const groupByDay = (changes: readonly ChangeJson[]) => {
  const days: { name: string; changes: ChangeJson[] }[] = [];
  for (const change of changes) {
    const name = DAY.format(change.blockTimestamp * 1000);
    const last = days.at(-1);
    if (last?.name === name) last.changes.push(change);
    else days.push({ name, changes: [change] });
  }
  return days;
};

const Direction = ({ change: { from, to, direction } }: { change: ChangeJson }) => {
  if (from === to) return <span class="quiet">to itself</span>;
  return (
    <span class="direction" title={direction === "in" ? "Incoming" : "Outgoing"}>
      <span aria-hidden="true">{direction === "in" ? "←" : "→"}</span>
      <span class="visually-hidden">{direction === "in" ? "incoming, from" : "outgoing, to"}</span>
    </span>
  );
};
