import { useCallback } from "preact/hooks";
import { Address, shorten } from "../shared/address.tsx";
import { BarChart, type Colors } from "./chart.tsx";
import type { Contract, InsightsData, NetworkState } from "./data.ts";
import { TableFrame } from "./table-frame.tsx";
import { count, shortCount } from "./words.ts";

type ContractsProps = { data: InsightsData; networks: readonly NetworkState[] };

/** The contracts that most delegations are for. */
export const ContractsSection = ({ data: { contracts }, networks }: ContractsProps) => {
  const isNarrow = matchMedia(NARROW).matches;
  const draw = useCallback(
    (colors: Colors, font: string) => configure(contracts, isNarrow, colors, font),
    [contracts, isNarrow],
  );
  const [first] = contracts;
  return (
    <section class="card panel" aria-labelledby="contracts">
      <div class="panel-head">
        <h2 id="contracts">Most delegated contracts</h2>
      </div>
      {first === undefined ? (
        <p class="quiet empty">No delegation is limited to a contract.</p>
      ) : (
        <figure>
          <BarChart
            label={`Active delegations for the ${contracts.length} contracts that have most: from ${count(first.delegations)} for ${first.contract} on ${first.network} to ${count(contracts.at(-1)?.delegations ?? 0)}. The table below has the numbers.`}
            height={3 + contracts.length * (isNarrow ? 2.5 : 1.75)}
            draw={draw}
          />
          <figcaption>
            <p class="quiet">Active delegations for a contract or for one of its tokens, in both registries.</p>
          </figcaption>
          <details>
            <summary>Show as a table</summary>
            <TableFrame label="Most delegated contracts">
              <table>
                <caption class="unseen">The contracts with most active delegations</caption>
                <thead>
                  <tr>
                    <th scope="col">Contract</th>
                    <th scope="col">Network</th>
                    <th scope="col" class="number">
                      Active
                    </th>
                    <th scope="col" class="number">
                      Ever made
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {contracts.map((contract) => (
                    <tr key={`${contract.chainId} ${contract.contract}`}>
                      <th scope="row">
                        <Address value={contract.contract} what="contract" href={linkOf(contract, networks)} />
                      </th>
                      <td>{contract.network}</td>
                      <td class="number">{count(contract.delegations)}</td>
                      <td class="number">{count(contract.made)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </TableFrame>
          </details>
        </figure>
      )}
    </section>
  );
};

const linkOf = ({ chainId, contract }: Contract, networks: readonly NetworkState[]): string | undefined => {
  const explorer = networks.find((network) => network.chainId === chainId)?.blockExplorer;
  return explorer ? `${explorer}/address/${contract}` : undefined;
};

/** Too narrow for an address and a network side by side. */
const NARROW = "(width < 40rem)";

const configure = (contracts: readonly Contract[], isNarrow: boolean, colors: Colors, font: string) => {
  const ticks = { color: colors.quiet, font: { family: font, size: 12 } };
  return {
    type: "bar" as const,
    data: {
      labels: contracts.map(({ contract, network }) =>
        isNarrow ? [shorten(contract), network] : `${shorten(contract)} · ${network}`,
      ),
      datasets: [
        {
          label: "Active delegations",
          data: contracts.map(({ delegations }) => delegations),
          backgroundColor: colors.series[0] ?? colors.text,
          borderRadius: 3,
          maxBarThickness: 20,
        },
      ],
    },
    options: {
      indexAxis: "y" as const,
      animation: false as const,
      maintainAspectRatio: false,
      scales: {
        x: {
          beginAtZero: true,
          grid: { color: colors.line },
          border: { display: false },
          ticks: {
            ...ticks,
            precision: 0,
            maxTicksLimit: 6,
            callback: (value: string | number) => shortCount(Number(value)),
          },
        },
        y: {
          grid: { display: false },
          border: { color: colors.line },
          ticks: { ...ticks, color: colors.text, autoSkip: false },
        },
      },
    },
  };
};
