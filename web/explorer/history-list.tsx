import { Scope, When } from "./delegation-details.tsx";
import type { Change, Network } from "./json.ts";
import { Party, Registry } from "./wallet-view.tsx";

const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" });

const VERBS: Record<Change["kind"], string> = { made: "Made", changed: "Changed", revoked: "Revoked" };

/** Changes in time, day by day, newest first. */
export const HistoryList = ({ changes, network }: { changes: readonly Change[]; network: Network }) => {
  return (
    <>
      {byDay(changes).map(({ name, changes }) => (
        <section key={name} class="day" aria-label={name}>
          <h3>{name}</h3>
          <ol class="timeline">
            {changes.map((change) => (
              <li key={change.id} data-kind={change.kind}>
                <p class="deed">
                  <strong>{VERBS[change.kind]}</strong> <Direction change={change} />
                </p>
                <Party
                  address={change.direction === "in" ? change.from : change.to}
                  network={network}
                  view={change.direction === "in" ? "out" : "in"}
                />
                <Scope delegation={change} network={network} />
                <When place={change} network={network} />
                <Registry name={change.registry} />
              </li>
            ))}
          </ol>
        </section>
      ))}
    </>
  );
};

/** They are in order: those of a day stand together. */
const byDay = (changes: readonly Change[]) => {
  const days: { name: string; changes: Change[] }[] = [];
  for (const change of changes) {
    const name = day.format(change.blockTimestamp * 1000);
    const last = days.at(-1);
    if (last?.name === name) last.changes.push(change);
    else days.push({ name, changes: [change] });
  }
  return days;
};

/** From this wallet to the other one, or from that one to this. */
const Direction = ({ change: { from, to, direction } }: { change: Change }) => {
  if (from === to) return <span class="quiet">to itself</span>;
  return (
    <span class="direction" title={direction === "in" ? "Incoming" : "Outgoing"}>
      <span aria-hidden="true">{direction === "in" ? "←" : "→"}</span>
      <span class="unseen">{direction === "in" ? "incoming, from" : "outgoing, to"}</span>
    </span>
  );
};
