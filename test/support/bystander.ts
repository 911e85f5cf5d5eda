import { setTimeout as sleep } from "node:timers/promises";
import { type Api, CHECK } from "./api.ts";
import { sendHttp } from "./http.ts";

const PAUSE_MS = 20;

/** How long its questions took, in ms. */
export type Waits = { asked: number; median: number; slowest: number };

/** Another client, who asks one check after the other, each over a connection of its own, while others misbehave. */
export const startBystander = (api: Api): (() => Promise<Waits>) => {
  let isOver = false;
  const ask = async () => {
    const times: number[] = [];
    while (!isOver) {
      const startedAt = performance.now();
      const { status, body } = await sendHttp(api.port, { path: CHECK, agent: false });
      if (status !== 200 || body !== "true") throw new Error(`It was answered ${status} ${body}`);
      times.push(performance.now() - startedAt);
      await sleep(PAUSE_MS);
    }
    return times.sort((a, b) => a - b);
  };
  const asking = ask();
  // Told to whoever stops it.
  asking.catch(() => {});
  return async () => {
    isOver = true;
    const times = await asking;
    return { asked: times.length, median: times[times.length >> 1] ?? Number.NaN, slowest: times.at(-1) ?? Number.NaN };
  };
};

/** How it is served when it is alone. */
export const measureAlone = async (api: Api, ms = 1_000): Promise<Waits> => {
  const stop = startBystander(api);
  await sleep(ms);
  return stop();
};

export const describeWaits = ({ asked, median, slowest }: Waits): string =>
  `${asked} checks, median ${median.toFixed(1)} ms, slowest ${slowest.toFixed(0)} ms`;
