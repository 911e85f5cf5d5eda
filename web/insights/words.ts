const NUMBER = new Intl.NumberFormat("en");
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const DATE = new Intl.DateTimeFormat("en", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });

export const count = (number: number): string => NUMBER.format(number);

/** The same in few characters. */
export const shortCount = (number: number): string => COMPACT.format(number);

/** A day, as 2026-11-15 is told. */
export const day = (start: string): string => DATE.format(new Date(`${start}T00:00:00Z`));

const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });

/** A moment of today. */
export const time = (timestamp: number): string => `${TIME.format(timestamp * 1000)} UTC`;

const UNITS = [
  [86_400, "day"],
  [3_600, "hour"],
  [60, "minute"],
  [1, "second"],
] as const;

/** How long ago a moment was. */
export const ago = (timestamp: number): string => {
  const seconds = Math.max(0, Math.round(Date.now() / 1000 - timestamp));
  const [size, unit] = UNITS.find(([size]) => seconds >= size) ?? [1, "second"];
  const number = Math.floor(seconds / size);
  return `${number} ${unit}${number === 1 ? "" : "s"} ago`;
};
