import { useCallback } from "preact/hooks";
import { Address, shortenHex } from "../shared/address.tsx";
import { TableFrame } from "../shared/table-frame.tsx";
import { BarChart, type Colors } from "./chart.tsx";
import { formatCount, formatShortCount } from "./format.ts";
import type { ContractJson, InsightsJson, NetworkStateJson } from "./json.ts";

type ContractsSectionProps = { data: InsightsJson; networks: readonly NetworkStateJson[] };

/** The contracts with the most active delegations. */
export const ContractsSection = ({ data: { contracts }, networks }: ContractsSectionProps) => {
  const isNarrow = matchMedia(NARROW).matches;
  const configure = useCallback(
    (colors: Colors, font: string) => buildChartConfig(contracts, isNarrow, colors, font),
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
            label={`Active delegations for the ${contracts.length} contracts with the most: from ${formatCount(first.delegations)} for ${first.contract} on ${first.network} to ${formatCount(contracts.at(-1)?.delegations ?? 0)}. The table below has the numbers.`}
            height={3 + contracts.length * (isNarrow ? 2.5 : 1.75)}
            configure={configure}
          />
          <figcaption>
            <p class="quiet">Active delegations for a contract or for one of its tokens, in both registries.</p>
          </figcaption>
          <details>
            <summary>Show as a table</summary>
            <TableFrame label="Most delegated contracts">
              <table>
                <caption class="visually-hidden">The contracts with the most active delegations</caption>
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
                        <Address
                          value={contract.contract}
                          what="contract"
                          href={buildContractUrl(contract, networks)}
                        />
                      </th>
                      <td>{contract.network}</td>
                      <td class="number">{formatCount(contract.delegations)}</td>
                      <td class="number">{formatCount(contract.made)}</td>
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

const buildContractUrl = (
  { chainId, contract }: ContractJson,
  networks: readonly NetworkStateJson[],
): string | undefined => {
  const explorer = networks.find((network) => network.chainId === chainId)?.blockExplorer;
  return explorer ? `${explorer}/address/${contract}` : undefined;
};

/** Too narrow for an address and a network side by side. */
const NARROW = "(width < 40rem)";

const buildChartConfig = (contracts: readonly ContractJson[], isNarrow: boolean, colors: Colors, font: string) => {
  const ticks = { color: colors.quiet, font: { family: font, size: 12 } };
  return {
    type: "bar" as const,
    data: {
      labels: contracts.map(({ contract, network }) =>
        isNarrow ? [shortenHex(contract), network] : `${shortenHex(contract)} · ${network}`,
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
            callback: (value: string | number) => formatShortCount(Number(value)),
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
