import { setTimeout as sleep } from "node:timers/promises";
import { type ApiProcess, CHECK, FRESH_FOR_A_DAY, launchApiProcess } from "./api.ts";
import { sendHttp } from "./http.ts";
import { createPopularDatabase } from "./million.ts";
import { readResidentMb, startStopwatch, watchMemory } from "./processes.ts";
import { test as base } from "./test.ts";

/** Tests with the API as a process, which they attack or measure: `service`, with the settings of `env`. */
export const test = base.extend("service", { scope: "file" }, async ({ databaseUrl, env }, { onCleanup }) => {
  const service = await launchApiProcess({ databaseUrl, env: { ...FRESH_FOR_A_DAY, LOG_LEVEL: "warn", ...env } });
  onCleanup(() => service.stop());
  return service;
});

/** The same, over a wallet to which many others have delegated: `popular`, with `fans` delegations. */
export const popularTest = test
  .extend("fans", { scope: "file" }, 3_000)
  .extend("popularDatabase", { scope: "file" }, async ({ fans }, { onCleanup }) => {
    const { client, ...created } = await createPopularDatabase(fans);
    onCleanup(() => client.end());
    return created;
  })
  .extend("popular", { scope: "file" }, ({ popularDatabase }) => popularDatabase.popular)
  .extend("databaseUrl", { scope: "file" }, ({ popularDatabase }) => popularDatabase.databaseUrl);

// What another client notices of an attack.

const PAUSE_MS = 20;

/** Number of checks, and their durations in ms. */
type Waits = { asked: number; median: number; slowest: number };

/** Starts a client that sends checks one by one, each over a new connection, while other clients misbehave. */
const startBystander = (api: ApiProcess): (() => Promise<Waits>) => {
  let isOver = false;
  const ask = async () => {
    const times: number[] = [];
    while (!isOver) {
      const read = startStopwatch(api.pid);
      const { status, body } = await sendHttp(api.port, { path: CHECK, agent: false });
      if (status !== 200 || body !== "true") throw new Error(`Expected 200 true, got ${status} ${body}`);
      times.push(read());
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
export const measureAlone = async (api: ApiProcess, ms = 1_000): Promise<Waits> => {
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
