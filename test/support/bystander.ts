import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { type Api, type ApiProcess, CHECK } from "./api.ts";
import { sendHttp } from "./http.ts";
import { readResidentMb, startStopwatch, watchMemory } from "./processes.ts";
import type { WorstRequest } from "./worst-requests.ts";

const PAUSE_MS = 20;

/** Number of checks, and their durations in ms. */
export type Waits = { asked: number; median: number; slowest: number };

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

/**
 * Measures the longest turn of this process's event loop during a task, in milliseconds of processor time: other
 * processes on the machine do not count.
 */
const measureLongestTurn = async <Result>(task: () => Promise<Result>) => {
  let longestMs = 0;
  let isOver = false;
  let last = process.cpuUsage();
  const watch = () => {
    const { user, system } = process.cpuUsage(last);
    longestMs = Math.max(longestMs, (user + system) / 1000);
    last = process.cpuUsage();
    if (!isOver) setImmediate(watch);
  };
  setImmediate(watch);
  const result = await task().finally(() => {
    isOver = true;
  });
  return { result, longestMs };
};

/** Sends requests one by one to an API in this process. Returns those whose longest turn was too long, five times. */
export const findLongTurns = async (
  api: Api,
  requests: Iterable<WorstRequest> | AsyncIterable<WorstRequest>,
  { headers = {}, maxMs }: { headers?: Record<string, string>; maxMs: number },
): Promise<string[]> => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const measure = async (request: WorstRequest) => {
    const { result, longestMs } = await measureLongestTurn(() =>
      sendHttp(api.port, { ...request, headers: { ...request.headers, ...headers }, agent }, request.body),
    );
    expect(result.status, `${request.name}: ${result.body.slice(0, 200)}`).toBeLessThan(500);
    return longestMs;
  };
  const long: string[] = [];
  let count = 0;
  let longest = { ms: 0, name: "" };
  for await (const request of requests) {
    count++;
    let ms = await measure(request);
    // A garbage collection may fall into some of them.
    for (let again = 0; again < 4 && ms >= maxMs; again++) ms = Math.min(ms, await measure(request));
    if (ms > longest.ms) longest = { ms, name: request.name };
    if (ms >= maxMs) long.push(`${ms.toFixed(0)} ms: ${request.name}`);
  }
  agent.destroy();
  console.log(`${count} requests, the longest turn took ${longest.ms.toFixed(1)} ms: ${longest.name}`);
  expect(count).toBeGreaterThan(0);
  return long;
};
