import { useCallback, useMemo, useState } from "preact/hooks";
import { BarChart, type Colors, SERIES } from "./chart.tsx";
import type { Activity, DelegationType, InsightsData } from "./data.ts";
import { allWeeks, drawTimeline, periodName, RECENT_DAYS, recentDays, type Timeline } from "./periods.ts";
import { TableFrame } from "./table-frame.tsx";
import { count, day, shortCount } from "./words.ts";

const TYPE_NAMES: Record<DelegationType, string> = {
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

/** What was delegated and revoked over time: up what was made, down what was revoked. */
export const ActivitySection = ({ data }: { data: InsightsData }) => {
  const [span, setSpan] = useState<Span>("days");
  const [group, setGroup] = useState<Group>("network");
  const timeline = useMemo(() => {
    const names = new Map(data.networks.map(({ chainId, name }) => [chainId, name]));
    const nameOf = ({ chainId, type }: Activity) =>
      group === "type" ? TYPE_NAMES[type] : (names.get(chainId) ?? `Chain ${chainId}`);
    const periods = span === "days" ? recentDays() : allWeeks(data.weeks);
    return drawTimeline(data[span], periods, nameOf);
  }, [data, span, group]);
  const draw = useCallback((colors: Colors, font: string) => configure(timeline, colors, font), [timeline]);
  const period = periodName(timeline.days);
  const [made, revoked] = [sum(timeline, "made"), sum(timeline, "revoked")];

  return (
    <section class="card panel" aria-labelledby="activity">
      <div class="panel-head">
        <h2 id="activity">Activity</h2>
        <div class="choices">
          <Choice name="Time" values={SPANS} chosen={span} choose={setSpan} />
          <Choice name="Grouping" values={GROUPS} chosen={group} choose={setGroup} />
        </div>
      </div>
      {timeline.series.length === 0 ? (
        <p class="quiet empty">Nothing happened in this time.</p>
      ) : (
        <figure>
          <BarChart
            label={`Delegations made and revoked per ${period}: ${count(made)} made and ${count(revoked)} revoked in all. The table below has the numbers.`}
            height={21}
            draw={draw}
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
              {count(made)} made (upwards) and {count(revoked)} revoked (downwards), per {period} (UTC).
            </p>
          </figcaption>
          <TimelineTable timeline={timeline} period={period} />
        </figure>
      )}
    </section>
  );
};

const sum = ({ series }: Timeline, what: "made" | "revoked"): number =>
  series.reduce((total, one) => total + one[what].reduce((a, b) => a + b, 0), 0);

type ChoiceProps<Value extends string> = {
  name: string;
  values: Record<Value, string>;
  chosen: Value;
  choose: (value: Value) => void;
};

const Choice = <Value extends string>({ name, values, chosen, choose }: ChoiceProps<Value>) => (
  <fieldset class="choice" aria-label={name}>
    {Object.entries<string>(values).map(([value, label]) => (
      <button key={value} type="button" aria-pressed={value === chosen} onClick={() => choose(value as Value)}>
        {label}
      </button>
    ))}
  </fieldset>
);

/** The same as numbers: the periods in which anything happened, newest first. */
const TimelineTable = ({ timeline: { starts, series }, period }: { timeline: Timeline; period: string }) => {
  const rows = starts
    .map((start, place) => ({ start, place }))
    .filter(({ place }) => series.some(({ made, revoked }) => (made[place] ?? 0) + (revoked[place] ?? 0) > 0))
    .reverse();
  return (
    <details>
      <summary>Show as a table</summary>
      <TableFrame label={`Activity per ${period}`}>
        <table>
          <caption class="unseen">Delegations made and revoked per {period}</caption>
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
            {rows.map(({ start, place }) => (
              <tr key={start}>
                <th scope="row">{day(start)}</th>
                {series.map(({ name, made, revoked }) => (
                  <td key={name} class="number">
                    {told(made[place] ?? 0, revoked[place] ?? 0)}
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

const told = (made: number, revoked: number): string => {
  if (made === 0 && revoked === 0) return "–";
  return revoked === 0 ? `${count(made)} made` : `${count(made)} made, ${count(revoked)} revoked`;
};

const configure = ({ starts, series }: Timeline, colors: Colors, font: string) => {
  const bars = (one: (typeof series)[number], index: number) => {
    const color = colors.series[index % SERIES] ?? colors.text;
    const shared = { stack: "all", backgroundColor: color, borderRadius: 2, maxBarThickness: 28, minBarLength: 0 };
    return [
      { ...shared, label: one.name, data: one.made },
      { ...shared, label: `${one.name}, revoked`, data: one.revoked.map((number) => -number) },
    ];
  };
  const ticks = { color: colors.quiet, font: { family: font, size: 12 } };
  return {
    type: "bar" as const,
    data: { labels: starts.map(day), datasets: series.flatMap(bars) },
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
          ticks: { ...ticks, precision: 0, callback: (value: string | number) => shortCount(Math.abs(Number(value))) },
        },
      },
      plugins: {
        tooltip: {
          filter: ({ parsed }: { parsed: { y: number | null } }) => parsed.y !== 0,
          callbacks: {
            label: ({ dataset, parsed }: { dataset: { label?: string }; parsed: { y: number | null } }) =>
              ` ${dataset.label}: ${count(Math.abs(parsed.y ?? 0))}`,
          },
        },
      },
    },
  };
};
