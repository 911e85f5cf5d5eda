import { setTimeout as sleep } from "node:timers/promises";
import { type Api, type ApiProcess, CHECK } from "./api.ts";
import { sendHttp } from "./http.ts";
import { residentMb, watchMemory } from "./measure.ts";

const PAUSE_MS = 20;

/** How long checks took, in ms. */
export type Waits = { asked: number; median: number; slowest: number };

/** Another client: it sends one check after the other, each over its own connection, while others misbehave. */
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
  // stop() passes it on.
  asking.catch(() => {});
  return async () => {
    isOver = true;
    const times = await asking;
    return { asked: times.length, median: times[times.length >> 1] ?? Number.NaN, slowest: times.at(-1) ?? Number.NaN };
  };
};

/** How that client is served when it is alone. */
export const measureAlone = async (api: Api, ms = 1_000): Promise<Waits> => {
  const stop = startBystander(api);
  await sleep(ms);
  return stop();
};

export const describeWaits = ({ asked, median, slowest }: Waits): string =>
  `${asked} checks, median ${median.toFixed(1)} ms, slowest ${slowest.toFixed(0)} ms`;

/** How another client was served alone and during a task, and by how much the process grew at most. */
export const observe = async (api: ApiProcess, task: () => Promise<unknown>) => {
  const alone = await measureAlone(api);
  const before = residentMb(api.pid);
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
