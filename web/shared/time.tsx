import { useEffect, useState } from "preact/hooks";

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const absolute = new Intl.DateTimeFormat("en-GB", {
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

/** How long ago a moment was. A chain's clock may be ahead of ours: then it is now. */
const ago = (timestamp: number, now: number): string => {
  const seconds = Math.max(0, now / 1000 - timestamp);
  const [unit, length] = UNITS.find(([, length]) => seconds >= length) ?? ["second", 1];
  return relative.format(-Math.floor(seconds / length), unit);
};

export const utc = (timestamp: number): string => `${absolute.format(timestamp * 1000)} UTC`;

/** The time, as it goes by. */
const useNow = (everyMs: number): number => {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
};

/** A moment, as seconds since 1970: how long ago, and when exactly. */
export const Ago = ({ timestamp }: { timestamp: number }) => {
  const now = useNow(5_000);
  return (
    <time dateTime={new Date(timestamp * 1000).toISOString()} title={utc(timestamp)}>
      {ago(timestamp, now)}
    </time>
  );
};
