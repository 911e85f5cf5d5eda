import { Agent } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { generateKey } from "../../../api/keys/api-key.ts";
import { LoadProcess } from "../../../bench/load-process.ts";
import {
  type ApiProcess as Api,
  CHECK,
  createSampleDatabase,
  FRESH_FOR_A_DAY,
  launchApiProcess,
} from "../../support/api.ts";
import { sendHttp } from "../../support/http.ts";
import { addKey } from "../../support/keys.ts";

// A client floods the API as fast as it can, from a process of its own. Others are answered as before.

const CONNECTIONS = 256;
const CALLERS = 20;
const REQUESTS_PER_SECOND = 5;
const SECONDS = 15;
/** Time until the flood has started. */
const START_MS = 3_000;
/** The p99 of the others beside a flood, compared with their p99 alone. */
const MAX_SLOWDOWN = 3;
/** Refusals cost the service nearly as much as answers, and come faster. */
const MAX_SLOWDOWN_BY_REFUSALS = 5;
// Other processes may take the processors for a moment.
const RETRY = { retry: 2 };

let api: Api;
let keysOfCallers: string[];
let keyOfFlood: string;
beforeAll(async () => {
  const databaseUrl = await createSampleDatabase();
  api = await launchApiProcess({
    databaseUrl,
    env: { ...FRESH_FOR_A_DAY, LOG_LEVEL: "warn", RATE_LIMIT_REQUESTS: "", TRUST_PROXY: "127.0.0.1" },
  });
  const database = new pg.Client(databaseUrl);
  await database.connect();
  const addKeys = (count: number) =>
    Promise.all(Array.from({ length: count }, async () => (await addKey(database)).key));
  keysOfCallers = await addKeys(CALLERS);
  [keyOfFlood = ""] = await addKeys(1);
  await database.end();
});
afterAll(() => api?.stop());

/** Sends a check from an address that the flood does not have. */
const askAs = (key: string, agent: Agent) =>
  sendHttp(api.port, { path: CHECK, headers: { "X-API-KEY": key, "X-Forwarded-For": "198.51.100.1" }, agent });

/** Sends the checks of all callers, each with its key over its own connection, and returns the p99 of their durations. */
const measureCallers = async (keys: readonly string[]): Promise<number> => {
  const durations: number[] = [];
  const ask = async (key: string, index: number) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    await sleep((index * 1000) / (REQUESTS_PER_SECOND * CALLERS));
    for (let request = 0; request < REQUESTS_PER_SECOND * SECONDS; request++) {
      const startedAt = performance.now();
      const { status, body } = await askAs(key, agent);
      expect({ status, body }).toEqual({ status: 200, body: "true" });
      durations.push(performance.now() - startedAt);
      await sleep(Math.max(0, startedAt + 1000 / REQUESTS_PER_SECOND - performance.now()));
    }
    agent.destroy();
  };
  await Promise.all(keys.map(ask));
  durations.sort((a, b) => a - b);
  return durations[Math.floor(durations.length * 0.99)] ?? Number.NaN;
};

/** Measures the callers alone, then beside a flood. */
const compareWithFlood = async (keys: readonly string[]) => {
  const alone = await measureCallers(keysOfCallers);
  const requests = keys.map((key) => `GET ${CHECK} HTTP/1.1\r\nHost: x\r\nX-API-KEY: ${key}\r\n\r\n`);
  const ms = SECONDS * 1000 + 2 * START_MS;
  const load = new LoadProcess();
  const flooding = load.run({ ports: [api.port], connections: CONNECTIONS, ms, requests });
  await sleep(START_MS);
  const beside = await measureCallers(keysOfCallers);
  const flood = await flooding.finally(() => load.stop());
  console.log(`p99 ${alone.toFixed(1)} ms alone, ${beside.toFixed(1)} ms beside the flood of`, flood);
  return { alone, beside, flood };
};

test(
  `a key over ${CONNECTIONS} connections delays no other caller: p99 below ${MAX_SLOWDOWN} times`,
  RETRY,
  async () => {
    const { alone, beside, flood } = await compareWithFlood([keyOfFlood]);
    expect(Object.keys(flood.statuses)).toEqual(["200"]);
    expect(beside / alone).toBeLessThan(MAX_SLOWDOWN);
  },
);

test(
  `made-up keys over ${CONNECTIONS} connections delay no known key: p99 below ${MAX_SLOWDOWN_BY_REFUSALS} times`,
  RETRY,
  async () => {
    const keys = Array.from({ length: 5_000 }, generateKey);
    const { alone, beside, flood } = await compareWithFlood(keys);
    expect(flood.statuses["401"]).toBeLessThan(200);
    expect(beside / alone).toBeLessThan(MAX_SLOWDOWN_BY_REFUSALS);
  },
);
