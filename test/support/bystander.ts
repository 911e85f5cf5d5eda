import { setTimeout as sleep } from "node:timers/promises";
import { type Api, type ApiProcess, CHECK } from "./api.ts";
import { sendHttp } from "./http.ts";
import { readResidentMb, watchMemory } from "./processes.ts";

const PAUSE_MS = 20;

/** Number of checks, and their durations in ms. */
export type Waits = { asked: number; median: number; slowest: number };

/** Starts a client that sends checks one by one, each over a new connection, while other clients misbehave. */
const startBystander = (api: Api): (() => Promise<Waits>) => {
  let isOver = false;
  const ask = async () => {
    const times: number[] = [];
    while (!isOver) {
      const startedAt = performance.now();
      const { status, body } = await sendHttp(api.port, { path: CHECK, agent: false });
      if (status !== 200 || body !== "true") throw new Error(`Expected 200 true, got ${status} ${body}`);
      times.push(performance.now() - startedAt);
      await sleep(PAUSE_MS);
    }
    return times.sort((a, b) => a - b);
  };
  const asking = ask();
  // The returned function rethrows its error.
  asking.catch(() => {});
  return async () => {
    isOver = true;
    const times = await asking;
    return { asked: times.length, median: times[times.length >> 1] ?? Number.NaN, slowest: times.at(-1) ?? Number.NaN };
  };
};

/** Measures checks while no other client sends requests. */
export const measureAlone = async (api: Api, ms = 1_000): Promise<Waits> => {
  const stop = startBystander(api);
  await sleep(ms);
  return stop();
};

const describeWaits = ({ asked, median, slowest }: Waits): string =>
  `${asked} checks, median ${median.toFixed(1)} ms, slowest ${slowest.toFixed(0)} ms`;

/** Measures another client's checks before and during a task, and the peak growth of the API's memory. */
export const observeBystander = async (api: ApiProcess, task: () => Promise<unknown>) => {
  const alone = await measureAlone(api);
  const before = readResidentMb(api.pid);
  const readPeak = watchMemory(api.pid);
  const stop = startBystander(api);
  let peak = before;
  await task().finally(() => {
    peak = readPeak();
    return stop();
  });
  const meanwhile = await stop();
  const grownMb = peak - before;
  console.log(`${grownMb.toFixed(0)} MB more. Alone: ${describeWaits(alone)}; meanwhile: ${describeWaits(meanwhile)}`);
  return { alone, meanwhile, grownMb };
};
