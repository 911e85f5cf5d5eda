import { FailureNotice, Notice } from "../shared/notice.tsx";
import { ActivitySection } from "./activity.tsx";
import { ContractsSection } from "./contracts.tsx";
import type { Counts, InsightsData, NetworksData } from "./data.ts";
import { NetworksSection } from "./networks.tsx";
import { useLatest } from "./use-latest.ts";
import { ago, count, time } from "./words.ts";

const REFRESH_SECONDS = 60;
/** Older than the service lets them become while all is well. */
const STALE_SECONDS = 180;

/** The whole page. */
export const Insights = () => {
  const { value: data, ageSeconds, newest, again } = useLatest<InsightsData>("/insights/data", REFRESH_SECONDS);
  const { value: networks } = useLatest<NetworksData>("/explorer/networks", REFRESH_SECONDS);
  return (
    <div class="column insights">
      <div class="intro">
        <h1>How delegations are used</h1>
        <p class="quiet">
          What is delegated and revoked in both registries, on every network that is indexed here
          {data ? `. Counted at ${time(data.readAt)}.` : "."}
        </p>
      </div>
      {data === null && newest === null && <Loading />}
      {data === null && newest !== null && newest.kind !== "answered" && (
        <FailureNotice failure={newest} again={again} />
      )}
      {data && ageSeconds > STALE_SECONDS && (
        <Notice title="These figures are old" tone="poor">
          <p>
            They were counted {ago(data.readAt)}, and could not be counted anew since. They are asked for again by
            themselves.
          </p>
        </Notice>
      )}
      {data && <Figures data={data} networks={networks?.networks ?? []} />}
    </div>
  );
};

const Loading = () => (
  <div role="status" class="loading">
    <span class="unseen">Counting…</span>
    <div class="tiles" aria-hidden="true">
      {[1, 2, 3, 4].map((tile) => (
        <div key={tile} class="card tile" />
      ))}
    </div>
    <div class="card placeholder" aria-hidden="true" />
  </div>
);

const Figures = ({ data, networks }: { data: InsightsData } & NetworksData) => (
  <>
    <Totals totals={data.totals} networks={networks} />
    {data.totals.made === 0 ? (
      <Notice title="Nothing has been delegated yet">
        <p>When the first delegation is indexed, it is counted here within a minute or two.</p>
      </Notice>
    ) : (
      <>
        <ActivitySection data={data} />
        <ContractsSection data={data} networks={networks} />
      </>
    )}
    {networks.length > 0 && <NetworksSection data={data} networks={networks} />}
  </>
);

const Totals = ({ totals, networks }: { totals: Counts } & NetworksData) => {
  const indexed = networks.filter(({ state }) => state !== "not-indexed");
  const fresh = indexed.filter(({ state }) => state === "fresh").length;
  const tiles: [what: string, number: string][] = [
    ["Active now", count(totals.active)],
    ["Ever made", count(totals.made)],
    ["Revoked", count(totals.revoked)],
    ["Networks up to date", networks.length > 0 ? `${count(fresh)} of ${count(indexed.length)}` : "–"],
  ];
  return (
    <dl class="tiles">
      {tiles.map(([what, number]) => (
        <div key={what} class="card tile">
          <dt>{what}</dt>
          <dd>{number}</dd>
        </div>
      ))}
    </dl>
  );
};
