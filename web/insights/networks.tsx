import { TableFrame } from "../shared/table-frame.tsx";
import { formatAge, formatCount } from "./format.ts";
import type { InsightsJson, NetworkStateJson } from "./json.ts";

const STATES: Record<NetworkStateJson["state"], string> = {
  fresh: "Up to date",
  behind: "Behind",
  indexing: "Indexing",
  "not-indexed": "Not indexed",
  unreachable: "Unreachable",
};

type NetworksSectionProps = { data: InsightsJson; networks: readonly NetworkStateJson[] };

/** The indexed networks: their state and their delegations. */
export const NetworksSection = ({ data, networks }: NetworksSectionProps) => {
  const counts = new Map(data.networks.map((network) => [network.chainId, network]));
  const activeOn = ({ chainId }: NetworkStateJson) => counts.get(chainId)?.active ?? 0;
  const indexed = networks.filter(({ state }) => state !== "not-indexed").sort((a, b) => activeOn(b) - activeOn(a));
  const mostActive = Math.max(1, ...indexed.map(activeOn));
  return (
    <section class="card panel" aria-labelledby="networks">
      <div class="panel-head">
        <h2 id="networks">Networks</h2>
        <p class="quiet">
          {formatCount(indexed.length)} of {formatCount(networks.length)} indexed here
        </p>
      </div>
      <TableFrame label="Networks that are indexed here">
        <table class="networks">
          <thead>
            <tr>
              <th scope="col">Network</th>
              <th scope="col">State</th>
              <th scope="col" class="number">
                Active
              </th>
              <th scope="col" class="number">
                Made
              </th>
              <th scope="col" class="number">
                Revoked
              </th>
              <th scope="col">Newest block</th>
            </tr>
          </thead>
          <tbody>
            {indexed.map((network) => (
              <NetworkRow
                key={network.chainId}
                network={network}
                counts={counts.get(network.chainId)}
                mostActive={mostActive}
              />
            ))}
          </tbody>
        </table>
      </TableFrame>
    </section>
  );
};

type NetworkRowProps = {
  network: NetworkStateJson;
  counts: InsightsJson["networks"][number] | undefined;
  mostActive: number;
};

const NetworkRow = ({ network, counts, mostActive }: NetworkRowProps) => {
  const { name, state, reason, indexedBlock, progress } = network;
  const share = progress ? ` ${Math.floor(progress.share * 100)}%` : "";
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>
        <span class="chip" data-state={state} title={reason ?? undefined}>
          {STATES[state]}
          {share}
        </span>
      </td>
      <td class="number">
        {counts ? (
          <span class="bar-cell">
            <span class="bar" style={{ width: `${(4 * counts.active) / mostActive}rem` }} />
            {formatCount(counts.active)}
          </span>
        ) : (
          "–"
        )}
      </td>
      <td class="number">{counts ? formatCount(counts.made) : "–"}</td>
      <td class="number">{counts ? formatCount(counts.revoked) : "–"}</td>
      <td>
        {indexedBlock ? (
          <>
            {formatCount(indexedBlock.number)} <span class="quiet">· {formatAge(indexedBlock.timestamp)}</span>
          </>
        ) : (
          <span class="quiet">none yet</span>
        )}
      </td>
    </tr>
  );
};
