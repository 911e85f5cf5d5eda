import type { ListedKeyJson } from "./json.ts";

const DAY_MS = 86_400_000;
const BAR_WIDTH = 6;
const HEIGHT = 40;

/** Bars with a key's requests on each of the last days, today last. */
export const UsageChart = ({ days, count }: { days: ListedKeyJson["days"]; count: number }) => {
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
      viewBox={`0 0 ${count * BAR_WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={summary}
    >
      {all.map(({ day, requests }, index) => {
        // A few requests stay visible beside many.
        const height = requests === 0 ? 1 : Math.max(4, (requests / most) * HEIGHT);
        return (
          <rect
            key={day}
            class={requests === 0 ? "none" : undefined}
            x={index * BAR_WIDTH + 1}
            y={HEIGHT - height}
            width={BAR_WIDTH - 2}
            height={height}
          >
            <title>{`${day}: ${requests.toLocaleString("en")}`}</title>
          </rect>
        );
      })}
    </svg>
  );
};
