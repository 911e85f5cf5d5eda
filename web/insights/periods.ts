import type { ActivityJson } from "./json.ts";

type Series = { name: string; made: number[]; revoked: number[]; total: number };

/** Consecutive periods of `days` each, until now. */
type Periods = { starts: string[]; days: number };

/** Activity in each period, without gaps, with one series per group. */
export type Timeline = Periods & { series: Series[] };

const DAY_MS = 86_400_000;
export const RECENT_DAYS = 90;
/** With more groups, the smallest are merged into `OTHERS`. */
const MAX_SERIES = 6;
const OTHERS = "All others";
/** More bars could not be told apart. */
const MAX_PERIODS = 104;

const toDay = (time: number): string => new Date(time).toISOString().slice(0, 10);
const toTime = (day: string): number => Date.parse(`${day}T00:00:00Z`);

const listPeriods = (first: number, days: number): Periods => {
  const starts: string[] = [];
  for (let time = first; time <= Date.now(); time += days * DAY_MS) starts.push(toDay(time));
  return { starts, days };
};

export const listRecentDays = (): Periods => listPeriods(toTime(toDay(Date.now() - (RECENT_DAYS - 1) * DAY_MS)), 1);

/** Lists all weeks since the first activity, merged so that there are at most `MAX_PERIODS`. */
export const listAllWeeks = (activity: readonly ActivityJson[]): Periods => {
  const first = activity.reduce((first, { start }) => Math.min(first, toTime(start)), Date.now());
  const weeks = (Date.now() - first) / (7 * DAY_MS);
  return listPeriods(first, 7 * Math.max(1, Math.ceil(weeks / MAX_PERIODS)));
};

export const namePeriod = (days: number): string => {
  if (days === 1) return "day";
  return days === 7 ? "week" : `${days / 7} weeks`;
};

type GetGroup = (activity: ActivityJson) => string;

/** Sums activity by period and group, the largest groups first. */
export const buildTimeline = (
  activity: readonly ActivityJson[],
  { starts, days }: Periods,
  getGroup: GetGroup,
): Timeline => {
  const firstTime = toTime(starts[0] ?? "");
  const ownSeries = findLargestGroups(activity, getGroup);
  const series = new Map<string, Series>();
  for (const entry of activity) {
    const period = Math.floor((toTime(entry.start) - firstTime) / (days * DAY_MS));
    if (starts[period] === undefined) continue;
    const name = ownSeries.has(getGroup(entry)) ? getGroup(entry) : OTHERS;
    const sums = series.get(name) ?? { name, made: starts.map(() => 0), revoked: starts.map(() => 0), total: 0 };
    sums.made[period] = (sums.made[period] ?? 0) + entry.made;
    sums.revoked[period] = (sums.revoked[period] ?? 0) + entry.revoked;
    sums.total += entry.made + entry.revoked;
    series.set(name, sums);
  }
  const rank = ({ name, total }: Series) => (name === OTHERS ? -1 : total);
  return { starts, days, series: [...series.values()].sort((a, b) => rank(b) - rank(a)) };
};

/** Finds the groups that get a series of their own. */
const findLargestGroups = (activity: readonly ActivityJson[], getGroup: GetGroup): ReadonlySet<string> => {
  const totals = new Map<string, number>();
  for (const entry of activity) {
    const group = getGroup(entry);
    totals.set(group, (totals.get(group) ?? 0) + entry.made + entry.revoked);
  }
  const groups = [...totals].sort(([, a], [, b]) => b - a).map(([group]) => group);
  return new Set(groups.length > MAX_SERIES ? groups.slice(0, MAX_SERIES - 1) : groups);
};
