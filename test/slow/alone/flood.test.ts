import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { generateKey } from "../../../api/keys/api-key.ts";
import { LoadProcess } from "../../../bench/load-process.ts";
import { type ApiProcess, CHECK } from "../../support/api.ts";
import { sendHttp } from "../../support/http.ts";
import { addKey } from "../../support/keys.ts";
import { startStopwatch } from "../../support/processes.ts";
import { test as base } from "../../support/service-test.ts";

// A client floods the API as fast as it can, from a process of its own. Others are answered as before.

/** Enough for its median to be many turns of the event loop: an answer takes others up to four. */
const CONNECTIONS = 512;
const CALLERS = 20;
const REQUESTS_PER_SECOND = 5;
/** Other processes may take the processors for a moment. */
const ROUNDS = 5;
const SECONDS = 4;
/** Time until the flood has started. */
const START_MS = 1_000;

const test = base
  .extend("env", { RATE_LIMIT_REQUESTS: "", TRUST_PROXY: "127.0.0.1" })
  .extend("keys", { scope: "file" }, ({ database }) =>
    Promise.all(Array.from({ length: CALLERS + 1 }, async () => (await addKey(database)).key)),
  );

const percentile = (numbers: readonly number[], share: number) =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length * share)] ?? Number.NaN;

/** Sends the checks of all callers, each with its key over its own connection, and returns their durations. */
const measureCallers = async ({ port, pid }: ApiProcess, keys: readonly string[]): Promise<number[]> => {
  const durations: number[] = [];
  const ask = async (key: string, index: number) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    // An address that the flood does not have.
    const headers = { "X-API-KEY": key, "X-Forwarded-For": "198.51.100.1" };
    await sleep((index * 1000) / (REQUESTS_PER_SECOND * CALLERS));
    for (let request = 0; request < REQUESTS_PER_SECOND * SECONDS; request++) {
      const startedAt = performance.now();
      const read = startStopwatch(pid);
      const { status, body } = await sendHttp(port, { path: CHECK, headers, agent });
      durations.push(read());
      expect({ status, body }).toEqual({ status: 200, body: "true" });
      await sleep(Math.max(0, startedAt + 1000 / REQUESTS_PER_SECOND - performance.now()));
    }
    agent.destroy();
  };
  await Promise.all(keys.map(ask));
  return durations;
};

type Statuses = Record<string, number>;

const expectAnswers = (statuses: Statuses) => expect(Object.keys(statuses)).toEqual(["200"]);

/** Unknown keys are looked up a few times, then refused by the limit of their address. */
const expectRefusals = ({ 200: answered = 0, 401: unknown = 0, ...others }: Statuses) => {
  expect(answered).toBe(0);
  expect(unknown).toBeLessThan(200);
  expect(others).not.toEqual({});
};

test.for([
  { flood: "a key", drawKeys: (own: string) => [own], expectStatuses: expectAnswers },
  // Refusals cost the service nearly as much as answers, and come faster.
  { flood: "made-up keys", drawKeys: () => Array.from({ length: 5_000 }, generateKey), expectStatuses: expectRefusals },
])(
  `$flood over ${CONNECTIONS} connections delays itself, not others: their p90 is below half its median`,
  async ({ drawKeys, expectStatuses }, { service, keys: [own = "", ...keysOfCallers] }) => {
    const requests = drawKeys(own).map((key) => `GET ${CHECK} HTTP/1.1\r\nHost: x\r\nX-API-KEY: ${key}\r\n\r\n`);
    const load = new LoadProcess();
    const shares: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const ms = SECONDS * 1000 + 2 * START_MS;
      const flooding = load.run({ ports: [service.port], connections: CONNECTIONS, ms, requests });
      await sleep(START_MS);
      const durations = await measureCallers(service, keysOfCallers);
      const p90Ms = percentile(durations, 0.9);
      const { statuses, ...flood } = await flooding;
      console.log(
        `p90 ${p90Ms.toFixed(1)} ms, p99 ${percentile(durations, 0.99).toFixed(1)} ms beside the flood of`,
        flood,
        statuses,
      );
      expectStatuses(statuses);
      // In one queue with the flood, they would wait as long as it does.
      shares.push(p90Ms / flood.p50Ms);
    }
    load.stop();
    expect(percentile(shares, 0.5), `${shares}`).toBeLessThan(0.5);
  },
);
