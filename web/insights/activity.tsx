import { useCallback, useMemo, useState } from "preact/hooks";
import { TableFrame } from "../shared/table-frame.tsx";
import { BarChart, type Colors, SERIES } from "./chart.tsx";
import { formatCount, formatDay, formatShortCount } from "./format.ts";
import type { ActivityJson, DelegationTypeJson, InsightsJson } from "./json.ts";
import { buildTimeline, listAllWeeks, listRecentDays, namePeriod, RECENT_DAYS, type Timeline } from "./periods.ts";

const TYPE_NAMES: Record<DelegationTypeJson, string> = {
  ALL: "Whole wallet",
  CONTRACT: "Contract",
  TOKEN: "Token (v1)",
  ERC721: "ERC721 token",
  ERC20: "ERC20 amount",
  ERC1155: "ERC1155 amount",
};

const SPANS = { days: `Last ${RECENT_DAYS} days`, weeks: "All time" } as const;
const GROUPS = { network: "By network", type: "By type" } as const;

type Span = keyof typeof SPANS;
type Group = keyof typeof GROUPS;

/** Delegations over time: bars go up for those made, down for those revoked. */
export const ActivitySection = ({ data }: { data: InsightsJson }) => {
  const [span, setSpan] = useState<Span>("days");
  const [group, setGroup] = useState<Group>("network");
  const timeline = useMemo(() => {
    const names = new Map(data.networks.map(({ chainId, name }) => [chainId, name]));
    const getGroup = ({ chainId, type }: ActivityJson) =>
      group === "type" ? TYPE_NAMES[type] : (names.get(chainId) ?? `Chain ${chainId}`);
    const periods = span === "days" ? listRecentDays() : listAllWeeks(data.weeks);
    return buildTimeline(data[span], periods, getGroup);
  }, [data, span, group]);
  const configure = useCallback((colors: Colors, font: string) => buildChartConfig(timeline, colors, font), [timeline]);
  const period = namePeriod(timeline.days);
  const [made, revoked] = [sumSeries(timeline, "made"), sumSeries(timeline, "revoked")];

  return (
    <section class="card panel" aria-labelledby="activity">
      <div class="panel-head">
        <h2 id="activity">Activity</h2>
        <div class="choices">
          <ToggleGroup name="Time" values={SPANS} selected={span} onSelect={setSpan} />
          <ToggleGroup name="Grouping" values={GROUPS} selected={group} onSelect={setGroup} />
        </div>
      </div>
      {timeline.series.length === 0 ? (
        <p class="quiet empty">No activity in this period.</p>
      ) : (
        <figure>
          <BarChart
            label={`Delegations made and revoked per ${period}: ${formatCount(made)} made and ${formatCount(revoked)} revoked in total. The table below has the numbers.`}
            height={21}
            configure={configure}
          />
          <figcaption>
            <ul class="legend">
              {timeline.series.map(({ name }, index) => (
                <li key={name}>
                  <span class="swatch" style={{ background: `var(--series-${(index % SERIES) + 1})` }} />
                  {name}
                </li>
              ))}
            </ul>
            <p class="quiet">
              {formatCount(made)} made (upwards) and {formatCount(revoked)} revoked (downwards), per {period} (UTC).
            </p>
          </figcaption>
          <TimelineTable timeline={timeline} period={period} />
        </figure>
      )}
    </section>
  );
};

const sumSeries = ({ series }: Timeline, kind: "made" | "revoked"): number =>
  series.reduce((total, counts) => total + counts[kind].reduce((a, b) => a + b, 0), 0);

type ToggleGroupProps<Value extends string> = {
  name: string;
  values: Record<Value, string>;
  selected: Value;
  onSelect: (value: Value) => void;
};

const ToggleGroup = <Value extends string>({ name, values, selected, onSelect }: ToggleGroupProps<Value>) => (
  <fieldset class="choice" aria-label={name}>
    {Object.entries<string>(values).map(([value, label]) => (
      <button key={value} type="button" aria-pressed={value === selected} onClick={() => onSelect(value as Value)}>
        {label}
      </button>
    ))}
  </fieldset>
);

/** The numbers of the chart: periods with activity, newest first. */
const TimelineTable = ({ timeline: { starts, series }, period }: { timeline: Timeline; period: string }) => {
  const rows = starts
    .map((start, index) => ({ start, index }))
    .filter(({ index }) => series.some(({ made, revoked }) => (made[index] ?? 0) + (revoked[index] ?? 0) > 0))
    .reverse();
  return (
    <details>
      <summary>Show as a table</summary>
      <TableFrame label={`Activity per ${period}`}>
        <table>
          <caption class="visually-hidden">Delegations made and revoked per {period}</caption>
          <thead>
            <tr>
              <th scope="col">{period === "day" ? "Day" : "From week"}</th>
              {series.map(({ name }) => (
                <th key={name} scope="col" class="number">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ start, index }) => (
              <tr key={start}>
                <th scope="row">{formatDay(start)}</th>
                {series.map(({ name, made, revoked }) => (
                  <td key={name} class="number">
                    {formatCell(made[index] ?? 0, revoked[index] ?? 0)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </TableFrame>
    </details>
  );
};

const formatCell = (made: number, revoked: number): string => {
  if (made === 0 && revoked === 0) return "–";
  return revoked === 0 ? `${formatCount(made)} made` : `${formatCount(made)} made, ${formatCount(revoked)} revoked`;
};

const buildChartConfig = ({ starts, series }: Timeline, colors: Colors, font: string) => {
  const buildBars = ({ name, made, revoked }: (typeof series)[number], index: number) => {
    const color = colors.series[index % SERIES] ?? colors.text;
    const shared = { stack: "all", backgroundColor: color, borderRadius: 2, maxBarThickness: 28, minBarLength: 0 };
    return [
      { ...shared, label: name, data: made },
      { ...shared, label: `${name}, revoked`, data: revoked.map((count) => -count) },
    ];
  };
  const ticks = { color: colors.quiet, font: { family: font, size: 12 } };
  return {
    type: "bar" as const,
    data: { labels: starts.map(formatDay), datasets: series.flatMap(buildBars) },
    options: {
      animation: false as const,
      maintainAspectRatio: false,
      interaction: { mode: "index" as const, intersect: false },
      scales: {
        x: {
          stacked: true,
          grid: { display: false },
          border: { color: colors.line },
          ticks: { ...ticks, maxTicksLimit: 8, maxRotation: 0, autoSkipPadding: 24 },
        },
        y: {
          stacked: true,
          grid: { color: ({ tick }: { tick?: { value: number } }) => (tick?.value === 0 ? colors.quiet : colors.line) },
          border: { display: false },
          ticks: {
            ...ticks,
            precision: 0,
            callback: (value: string | number) => formatShortCount(Math.abs(Number(value))),
          },
        },
      },
      plugins: {
        tooltip: {
          filter: ({ parsed }: { parsed: { y: number | null } }) => parsed.y !== 0,
          callbacks: {
            label: ({ dataset, parsed }: { dataset: { label?: string }; parsed: { y: number | null } }) =>
              ` ${dataset.label}: ${formatCount(Math.abs(parsed.y ?? 0))}`,
          },
        },
      },
    },
  };
};
