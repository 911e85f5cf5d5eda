import { FailureNotice, Notice } from "../shared/notice.tsx";
import { usePolledJson } from "../shared/use-polled-json.ts";
import { ActivitySection } from "./activity.tsx";
import { ContractsSection } from "./contracts.tsx";
import { formatAge, formatCount, formatTime } from "./format.ts";
import type { CountsJson, InsightsJson, NetworkStatesJson } from "./json.ts";
import { NetworksSection } from "./networks.tsx";

const REFRESH_SECONDS = 60;
/** Older than figures become while the service is healthy. */
const STALE_SECONDS = 180;

export const InsightsPage = () => {
  const { value: data, ageSeconds, latest, retry } = usePolledJson<InsightsJson>("/insights/data", REFRESH_SECONDS);
  const { value: networks } = usePolledJson<NetworkStatesJson>("/networks", REFRESH_SECONDS);
  return (
    <div class="column insights">
      <div class="intro">
        <h1>How delegations are used</h1>
        <p class="quiet">
          Delegations made and revoked in both registries, on every network that is indexed here
          {data ? `. Counted at ${formatTime(data.readAt)}.` : "."}
        </p>
      </div>
      {data === null && latest === null && <Loading />}
      {data === null && latest !== null && latest.kind !== "ok" && <FailureNotice failure={latest} retry={retry} />}
      {data && ageSeconds > STALE_SECONDS && (
        <Notice title="These figures are old" tone="poor">
          <p>
            They were counted {formatAge(data.readAt)} and could not be updated since. This page tries again
            automatically.
          </p>
        </Notice>
      )}
      {data && <Figures data={data} networks={networks?.networks ?? []} />}
    </div>
  );
};

const Loading = () => (
  <div role="status" class="loading">
    <span class="visually-hidden">Counting…</span>
    <div class="tiles" aria-hidden="true">
      {[1, 2, 3, 4].map((tile) => (
        <div key={tile} class="card tile" />
      ))}
    </div>
    <div class="card placeholder" aria-hidden="true" />
  </div>
);

const Figures = ({ data, networks }: { data: InsightsJson } & NetworkStatesJson) => (
  <>
    <Totals totals={data.totals} networks={networks} />
    {data.totals.made === 0 ? (
      <Notice title="Nothing has been delegated yet">
        <p>The first delegation is counted here within a minute or two after it is indexed.</p>
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

const Totals = ({ totals, networks }: { totals: CountsJson } & NetworkStatesJson) => {
  const indexed = networks.filter(({ state }) => state !== "not-indexed");
  const fresh = indexed.filter(({ state }) => state === "fresh").length;
  const tiles: [label: string, value: string][] = [
    ["Active now", formatCount(totals.active)],
    ["Ever made", formatCount(totals.made)],
    ["Revoked", formatCount(totals.revoked)],
    ["Networks up to date", networks.length > 0 ? `${formatCount(fresh)} of ${formatCount(indexed.length)}` : "–"],
  ];
  return (
    <dl class="tiles">
      {tiles.map(([label, value]) => (
        <div key={label} class="card tile">
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
};
