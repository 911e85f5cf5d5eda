import type { Key } from "./answers.ts";

const DAY_MS = 86_400_000;
const BAR = 6;
const HEIGHT = 40;

/** How often a key was used on each of the last days, today last. */
export const Usage = ({ days, count }: { days: Key["days"]; count: number }) => {
  const requestsOn = new Map(days.map(({ day, requests }) => [day, requests]));
  const all = Array.from({ length: count }, (_, index) => {
    const day = new Date(Date.now() - (count - 1 - index) * DAY_MS).toISOString().slice(0, 10);
    return { day, requests: requestsOn.get(day) ?? 0 };
  });
  const most = Math.max(1, ...all.map(({ requests }) => requests));
  const total = all.reduce((sum, { requests }) => sum + requests, 0);
  const busiest = all.find(({ requests }) => requests === most);
  const summary =
    total === 0
      ? `No requests in the last ${count} days`
      : `${total.toLocaleString("en")} requests in the last ${count} days, most on ${busiest?.day}: ${most.toLocaleString("en")}`;
  return (
    <svg
      class="usage"
      viewBox={`0 0 ${count * BAR} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={summary}
    >
      {all.map(({ day, requests }, index) => {
        // Few beside many are still seen.
        const height = requests === 0 ? 1 : Math.max(4, (requests / most) * HEIGHT);
        return (
          <rect
            key={day}
            class={requests === 0 ? "none" : undefined}
            x={index * BAR + 1}
            y={HEIGHT - height}
            width={BAR - 2}
            height={height}
          >
            <title>{`${day}: ${requests.toLocaleString("en")}`}</title>
          </rect>
        );
      })}
    </svg>
  );
};
