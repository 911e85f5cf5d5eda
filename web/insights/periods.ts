import type { Activity } from "./data.ts";

type Series = { name: string; made: number[]; revoked: number[]; total: number };

/** Periods of so many days each, from one on until now. */
type Periods = { starts: string[]; days: number };

/** What happened in each of some periods, without gaps, one series for each group. */
export type Timeline = Periods & { series: Series[] };

const DAY_MS = 86_400_000;
export const RECENT_DAYS = 90;
/** More groups than this are put together as one. */
const MOST_SERIES = 6;
const OTHERS = "All others";

const dayOf = (time: number): string => new Date(time).toISOString().slice(0, 10);
const timeOf = (start: string): number => Date.parse(`${start}T00:00:00Z`);

const periodsFrom = (first: number, days: number): Periods => {
  const starts: string[] = [];
  for (let time = first; time <= Date.now(); time += days * DAY_MS) starts.push(dayOf(time));
  return { starts, days };
};

export const recentDays = (): Periods => periodsFrom(timeOf(dayOf(Date.now() - (RECENT_DAYS - 1) * DAY_MS)), 1);

/** More bars than this could not be told apart. */
const MOST_PERIODS = 104;

/** All weeks since the first in which something happened, several together where they are very many. */
export const allWeeks = (activity: readonly Activity[]): Periods => {
  const first = activity.reduce((first, { start }) => Math.min(first, timeOf(start)), Date.now());
  const weeks = (Date.now() - first) / (7 * DAY_MS);
  return periodsFrom(first, 7 * Math.max(1, Math.ceil(weeks / MOST_PERIODS)));
};

/** What a period is called. */
export const periodName = (days: number): string => {
  if (days === 1) return "day";
  return days === 7 ? "week" : `${days / 7} weeks`;
};

/** Sorts activity into periods and groups, the largest groups first. */
export const drawTimeline = (
  activity: readonly Activity[],
  { starts, days }: Periods,
  nameOf: (activity: Activity) => string,
): Timeline => {
  const first = timeOf(starts[0] ?? "");
  const totals = new Map<string, number>();
  for (const one of activity) totals.set(nameOf(one), (totals.get(nameOf(one)) ?? 0) + one.made + one.revoked);
  const names = [...totals.keys()].sort((a, b) => (totals.get(b) ?? 0) - (totals.get(a) ?? 0));
  const own = new Set(names.length > MOST_SERIES ? names.slice(0, MOST_SERIES - 1) : names);

  const series = new Map<string, Series>();
  for (const one of activity) {
    const place = Math.floor((timeOf(one.start) - first) / (days * DAY_MS));
    if (starts[place] === undefined) continue;
    const name = own.has(nameOf(one)) ? nameOf(one) : OTHERS;
    const found = series.get(name) ?? { name, made: starts.map(() => 0), revoked: starts.map(() => 0), total: 0 };
    found.made[place] = (found.made[place] ?? 0) + one.made;
    found.revoked[place] = (found.revoked[place] ?? 0) + one.revoked;
    found.total += one.made + one.revoked;
    series.set(name, found);
  }
  const rank = ({ name, total }: Series) => (name === OTHERS ? -1 : total);
  return { starts, days, series: [...series.values()].sort((a, b) => rank(b) - rank(a)) };
};
