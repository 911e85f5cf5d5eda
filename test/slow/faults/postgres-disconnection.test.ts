import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { type Fault, lockHeld } from "../../../faults/faults.ts";
import type { Stack } from "../../../faults/stack.ts";
import { type Api, CHECK, HOT, startTestApi, VAULT } from "../../support/api.ts";
import { findSamples, parseMetrics, readValue } from "../../support/metrics.ts";
import { startStopwatch } from "../../support/processes.ts";
import { waitUntil } from "../../support/setup.ts";
import { expectSurvival, test } from "./survive.ts";

const QUESTIONS = [
  CHECK,
  `/registry/v1/check/all?delegate=${HOT}&vault=${VAULT}`,
  `/registry/v2/${VAULT}`,
  `/registry/v1/${VAULT}?limit=2`,
  `/wallets/${VAULT}/history`,
  `/wallets/${HOT}/vaults`,
];

const ROUNDS = 60;
const ROUND_MS = 50;

const findApi = ({ apis }: Stack) => {
  const api = apis[0]?.process;
  if (!api) throw new Error("The API is not running.");
  return api;
};

const ask = async (stack: Stack, path: string) => {
  const sentAt = performance.now();
  const readMs = startStopwatch(findApi(stack).pid);
  const response = await findApi(stack).get(path);
  const body = await response.text();
  const { status, headers } = response;
  return { status, headers, body, sentAt, answeredAt: performance.now(), ms: readMs() };
};

/** Reads metrics, and expects them at once, whatever the state of the database. */
const readMetrics = async (stack: Stack) => {
  const readMs = startStopwatch(findApi(stack).pid);
  const metrics = parseMetrics(await findApi(stack).metrics());
  expect(readMs()).toBeLessThan(500);
  const answered = findSamples(metrics, "chain_answered").map(({ value }) => value);
  return { isReachable: readValue(metrics, "database_reachable"), answered };
};

const expectAnswers = async (stack: Stack) => {
  const readStatus = async () => (await ask(stack, CHECK)).status;
  await waitUntil("the API answers within 5 s", readStatus, 5, (status) => status === 200);
  for (const path of QUESTIONS) expect(await ask(stack, path)).toMatchObject({ status: 200 });
  expect((await ask(stack, "/ready")).status).toBe(200);
  expect(await readMetrics(stack)).toEqual({ isReachable: 1, answered: [1] });
};

/** Sends many requests over some seconds, and expects each to be refused within 2 s. */
const expectRefusals = async (stack: Stack) => {
  const asked: ReturnType<typeof ask>[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    for (const path of QUESTIONS) asked.push(ask(stack, path));
    // It shares a read of the last second, which may have been before.
    if (round * ROUND_MS > 1000) asked.push(ask(stack, "/ready"));
    await sleep(ROUND_MS);
  }
  const refusals = await Promise.all(asked);
  const isUnavailable = ({ body }: (typeof refusals)[number]) =>
    JSON.parse(body).type === "/docs#problem-database-unavailable";
  const knownAt = Math.min(...refusals.filter(isUnavailable).map(({ answeredAt }) => answeredAt));
  expect(knownAt - (refusals[0]?.sentAt ?? 0)).toBeLessThan(2000);
  // Where processors are busy, the first requests may reach their deadline before the outage is known.
  expect(refusals.filter(({ sentAt }) => sentAt > knownAt).every(isUnavailable)).toBe(true);
  for (const { status, headers, body, ms } of refusals) {
    expect(status, body).toBe(503);
    expect(headers.get("Content-Type")).toBe("application/problem+json");
    expect(JSON.parse(body).type).toMatch(/^\/docs#problem-(database-unavailable|overloaded)$/);
    expect(headers.get("Retry-After")).toMatch(/^\d+$/);
    expect(body).not.toMatch(/ECONN|127\.0\.0\.1|select|at \//);
    expect(ms).toBeLessThan(2000);
  }
  // Only the first requests wait for a timeout.
  expect(refusals.filter(({ ms }) => ms > 500).length).toBeLessThan(refusals.length / 2);

  expect((await ask(stack, "/health")).status).toBe(200);
  const { status, body } = await ask(stack, "/status");
  expect(status).toBe(200);
  expect(JSON.parse(body)).toMatchObject({ database: "out of reach", chains: [{ ready: false }] });
  expect(await readMetrics(stack)).toEqual({ isReachable: 0, answered: [0] });
  const { networks } = JSON.parse((await ask(stack, "/networks")).body) as {
    networks: { chainId: number; state: string }[];
  };
  const unreachable = networks.filter(({ state }) => state === "unreachable");
  expect(unreachable.map(({ chainId }) => chainId)).toEqual([1]);
};

/** Breaks Postgres, and resolves with a function that mends it. */
type Break = (stack: Stack) => Promise<() => Promise<void> | void>;

test.for<[string, Break]>([
  [
    "is stopped",
    async ({ postgres }) => {
      await postgres.stop();
      return () => postgres.start();
    },
  ],
  ["hangs", ({ postgres }) => postgres.suspend()],
])(
  "the API returns 503 within 2 s while Postgres %s, and answers within 5 s of its return, without a restart",
  async ([name, breakPostgres], { stack }) => {
    await expectAnswers(stack);
    const fault: Fault = {
      name,
      run: async () => {
        const mend = await breakPostgres(stack);
        // An API that starts during the outage refuses too.
        let late: Api;
        try {
          await expectRefusals(stack);
          late = await startTestApi({ databaseUrl: stack.databaseUrl });
          for (const path of [CHECK, `${CHECK}&block=finalized`]) {
            const refusal = await late.get(path);
            const problem = { type: "/docs#problem-database-unavailable" };
            expect([refusal.status, await refusal.json()]).toMatchObject([503, problem]);
          }
        } finally {
          await mend();
        }
        await expectAnswers(stack);
        await waitUntil("the late API answers too", async () => (await late.get(CHECK)).ok, 5);
      },
    };
    const { refused } = await expectSurvival(stack, fault);
    expect(refused).toBeGreaterThan(0);
    expect(findApi(stack).output()).not.toMatch(/postgres:\/\//);
  },
);

test("the API returns 503 in time, with at most 18 sessions, while another session locks the tables", async ({
  stack,
}) => {
  const printed = stack.indexer.output().length;
  const sessions: number[] = [];
  const watched: Fault = {
    ...lockHeld,
    run: async () => {
      const timer = setInterval(async () => {
        const { rows } = await stack.withClient((client) =>
          client.query("select count(*)::int from pg_stat_activity where application_name = 'api'"),
        );
        sessions.push(rows[0].count);
      }, 500);
      await lockHeld.run(stack).finally(() => clearInterval(timer));
    },
  };
  const { refused } = await expectSurvival(stack, watched);
  expect(refused).toBeGreaterThan(0);
  // The number in docs/operating.md, and one probe.
  expect(Math.max(...sessions)).toBeLessThanOrEqual(18);
  expect(stack.indexer.output().slice(printed)).not.toContain("starting it again");
});
