import type { InsightsData, NetworkState } from "./data.ts";
import { TableFrame } from "./table-frame.tsx";
import { ago, count } from "./words.ts";

const STATES: Record<NetworkState["state"], string> = {
  fresh: "Up to date",
  behind: "Behind",
  indexing: "Indexing",
  "not-indexed": "Not indexed",
  unreachable: "Out of reach",
};

type NetworksProps = { data: InsightsData; networks: readonly NetworkState[] };

/** The networks that are indexed: how fresh each is, and how much is delegated on it. */
export const NetworksSection = ({ data, networks }: NetworksProps) => {
  const counts = new Map(data.networks.map((network) => [network.chainId, network]));
  const activeOn = ({ chainId }: NetworkState) => counts.get(chainId)?.active ?? 0;
  const indexed = networks.filter(({ state }) => state !== "not-indexed").sort((a, b) => activeOn(b) - activeOn(a));
  const most = Math.max(1, ...indexed.map(activeOn));
  return (
    <section class="card panel" aria-labelledby="networks">
      <div class="panel-head">
        <h2 id="networks">Networks</h2>
        <p class="quiet">
          {count(indexed.length)} of {count(networks.length)} indexed here
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
              <NetworkRow key={network.chainId} network={network} counts={counts.get(network.chainId)} most={most} />
            ))}
          </tbody>
        </table>
      </TableFrame>
    </section>
  );
};

type NetworkRowProps = { network: NetworkState; counts: InsightsData["networks"][number] | undefined; most: number };

const NetworkRow = ({ network, counts, most }: NetworkRowProps) => {
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
            <span class="bar" style={{ width: `${(4 * counts.active) / most}rem` }} />
            {count(counts.active)}
          </span>
        ) : (
          "–"
        )}
      </td>
      <td class="number">{counts ? count(counts.made) : "–"}</td>
      <td class="number">{counts ? count(counts.revoked) : "–"}</td>
      <td>
        {indexedBlock ? (
          <>
            {count(indexedBlock.number)} <span class="quiet">· {ago(indexedBlock.timestamp)}</span>
          </>
        ) : (
          <span class="quiet">none yet</span>
        )}
      </td>
    </tr>
  );
};
