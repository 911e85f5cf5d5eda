const NUMBER = new Intl.NumberFormat("en");
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const DATE = new Intl.DateTimeFormat("en", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });

export const formatCount = (count: number): string => NUMBER.format(count);

export const formatShortCount = (count: number): string => COMPACT.format(count);

/** @param day - such as 2026-11-15 */
export const formatDay = (day: string): string => DATE.format(new Date(`${day}T00:00:00Z`));

export const formatTime = (timestamp: number): string => `${TIME.format(timestamp * 1000)} UTC`;

const UNITS = [
  [86_400, "day"],
  [3_600, "hour"],
  [60, "minute"],
  [1, "second"],
] as const;

export const formatAge = (timestamp: number): string => {
  const seconds = Math.max(0, Math.round(Date.now() / 1000 - timestamp));
  const [size, unit] = UNITS.find(([size]) => seconds >= size) ?? [1, "second"];
  const number = Math.floor(seconds / size);
  return `${number} ${unit}${number === 1 ? "" : "s"} ago`;
};
