import { useEffect, useState } from "preact/hooks";

const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const ABSOLUTE = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  timeZone: "UTC",
});

const UNITS: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ["year", 31_557_600],
  ["month", 2_629_800],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];

/** A chain's clock may be ahead of ours: a time in the future reads "now". */
const formatRelative = (timestamp: number, now: number): string => {
  const seconds = Math.max(0, now / 1000 - timestamp);
  const [unit, length] = UNITS.find(([, length]) => seconds >= length) ?? ["second", 1];
  return RELATIVE.format(-Math.floor(seconds / length), unit);
};

export const formatUtc = (timestamp: number): string => `${ABSOLUTE.format(timestamp * 1000)} UTC`;

/** The current time, updated at an interval. */
const useNow = (everyMs: number): number => {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
};

/** Time since a Unix timestamp in seconds, with the exact time as a tooltip. */
export const TimeAgo = ({ timestamp }: { timestamp: number }) => {
  const now = useNow(5_000);
  return (
    <time dateTime={new Date(timestamp * 1000).toISOString()} title={formatUtc(timestamp)}>
      {formatRelative(timestamp, now)}
    </time>
  );
};
