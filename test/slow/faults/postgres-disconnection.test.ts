import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ApiProcess, CHECK, HOT, launchApiProcess, startTestApi, VAULT } from "../../support/api.ts";
import { findSamples, parseMetrics, readValue } from "../../support/metrics.ts";
import { listProcesses } from "../../support/processes.ts";
import { waitUntil } from "../../support/setup.ts";
import { expectSurvival, launchService } from "../../support/survive.ts";
import type { Network } from "../../support/wallet-answers.ts";
import { type Fault, lockHeld } from "../soak/faults.ts";

// A complete service with its own Postgres, under load. A second API answers the requests of these tests.

let launched: Awaited<ReturnType<typeof launchService>>;
let api: ApiProcess;
beforeAll(async () => {
  launched = await launchService();
  api = await launchApiProcess({ databaseUrl: launched.service.databaseUrl, env: FRESH });
});
afterAll(async () => {
  await api?.stop();
  await launched?.stop();
});

const FRESH = { MAX_INDEX_LAG_SECONDS: "300" };
const QUESTIONS = [
  CHECK,
  `/registry/v1/check/all?delegate=${HOT}&vault=${VAULT}`,
  `/registry/v2/${VAULT}`,
  `/registry/v1/${VAULT}?limit=2`,
  `/wallets/${VAULT}/history`,
  `/wallets/${HOT}/vaults`,
];

const ROUND_MS = 50;

const ask = async (path: string) => {
  const startedAt = performance.now();
  const response = await api.get(path);
  const body = await response.text();
  return { status: response.status, headers: response.headers, body, ms: performance.now() - startedAt };
};

/** Reads metrics, and expects them at once, whatever the state of the database. */
const readMetrics = async () => {
  const startedAt = performance.now();
  const metrics = parseMetrics(await api.metrics());
  expect(performance.now() - startedAt).toBeLessThan(500);
  const answered = findSamples(metrics, "chain_answered").map(({ value }) => value);
  return { isReachable: readValue(metrics, "database_reachable"), answered };
};

const expectAnswers = async () => {
  const readStatus = async () => (await ask(CHECK)).status;
  await waitUntil("the API answers within 5 s", readStatus, 5, (status) => status === 200);
  for (const path of QUESTIONS) expect(await ask(path)).toMatchObject({ status: 200 });
  expect((await ask("/ready")).status).toBe(200);
  expect(await readMetrics()).toEqual({ isReachable: 1, answered: [1] });
};

/** Sends many requests over some seconds, and expects each to be refused within 2 s. */
const expectRefusals = async () => {
  const asked: ReturnType<typeof ask>[] = [];
  for (let round = 0; round < 60; round++) {
    for (const path of QUESTIONS) asked.push(ask(path));
    // It shares a read of the last second, which may have been before.
    if (round * ROUND_MS > 1000) asked.push(ask("/ready"));
    await sleep(ROUND_MS);
  }
  const refusals = await Promise.all(asked);
  for (const { status, headers, body, ms } of refusals) {
    expect(status, body).toBe(503);
    expect(headers.get("Content-Type")).toBe("application/problem+json");
    expect(JSON.parse(body)).toMatchObject({ type: "/docs#problem-database-unavailable", status: 503 });
    expect(headers.get("Retry-After")).toMatch(/^\d+$/);
    expect(body).not.toMatch(/ECONN|127\.0\.0\.1|select|at \//);
    expect(ms).toBeLessThan(2000);
  }
  // Only the first requests wait for a timeout.
  expect(refusals.filter(({ ms }) => ms > 500).length).toBeLessThan(refusals.length / 2);

  expect((await ask("/health")).status).toBe(200);
  const { status, body } = await ask("/status");
  expect(status).toBe(200);
  expect(JSON.parse(body)).toMatchObject({ database: "out of reach", chains: [{ ready: false }] });
  expect(await readMetrics()).toEqual({ isReachable: 0, answered: [0] });
  const { networks } = JSON.parse((await ask("/networks")).body) as { networks: Network[] };
  const unreachable = networks.filter(({ state }) => state === "unreachable");
  expect(unreachable.map(({ chainId }) => chainId)).toEqual([1]);
};

test("the API returns 503 within 2 s while Postgres is stopped, and answers within 5 s of its return, without a restart", async () => {
  await expectAnswers();
  const restart: Fault = {
    name: "postgres-restart",
    concerns: () => true,
    run: async (service) => {
      await service.stopPostgres("in order");
      await expectRefusals();
      // An API that starts during the outage refuses too.
      const late = await startTestApi({ databaseUrl: service.databaseUrl, env: FRESH });
      const refusal = await late.get(CHECK);
      const problem = { type: "/docs#problem-database-unavailable" };
      expect([refusal.status, await refusal.json()]).toMatchObject([503, problem]);

      await service.startPostgres();
      await expectAnswers();
      await waitUntil("the late API answers too", async () => (await late.get(CHECK)).ok, 5);
    },
  };
  const { refused } = await expectSurvival(launched.service, restart);
  expect(refused).toBeGreaterThan(0);
});

test("the API returns 503 within 2 s while Postgres hangs, and answers within 5 s of its return, without a restart", async () => {
  const ofData = listProcesses().filter(({ command }) => command.includes(`${launched.directory}/postgres`));
  // A shell waits to run pg_ctl when this process is killed.
  const server = ofData.find(({ command }) => !command.includes("pg_ctl"));
  if (!server) throw new Error("Postgres is not running.");
  const children = listProcesses().flatMap(({ pid, parent }) => (parent === server.pid ? pid : []));
  const hung = [server.pid, ...children];
  for (const pid of hung) process.kill(pid, "SIGSTOP");
  try {
    await expectRefusals();
  } finally {
    for (const pid of hung) process.kill(pid, "SIGCONT");
  }
  await expectAnswers();
  expect(api.output()).not.toMatch(/postgres:\/\//);
});

test("the API returns 503 in time, with at most 18 sessions, while another session locks the tables", async () => {
  const { service } = launched;
  const printed = service.indexerOutput.length;
  await api.stop();
  const sessions: number[] = [];
  const watched: Fault = {
    ...lockHeld,
    run: async () => {
      const timer = setInterval(async () => {
        const { rows } = await service.withClient((client) =>
          client.query("select count(*)::int from pg_stat_activity where application_name = 'api'"),
        );
        sessions.push(rows[0].count);
      }, 500);
      await lockHeld.run(service).finally(() => clearInterval(timer));
    },
  };
  const { refused } = await expectSurvival(service, watched);
  expect(refused).toBeGreaterThan(0);
  // The number in docs/operating.md, and one probe.
  expect(Math.max(...sessions)).toBeLessThanOrEqual(18);
  expect(service.indexerOutput.slice(printed)).not.toContain("starting it again");
});
