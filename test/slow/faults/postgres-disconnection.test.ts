import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Fault, lockHeld } from "../../../soak/faults.ts";
import { type ApiProcess, CHECK, HOT, launchApiProcess, startApi, VAULT } from "../../support/api.ts";
import type { ExplorerNetwork } from "../../support/explorer.ts";
import { parseMetrics, readValue, samplesOf } from "../../support/metrics.ts";
import { runningProcesses } from "../../support/processes.ts";
import { until } from "../../support/setup.ts";
import { launchService, survive } from "../../support/survive.ts";

// A whole service over a Postgres of its own, under load; a second API beside it answers the requests of these tests.

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
  `/explorer/history/${VAULT}`,
  `/explorer/explain?registry=v2&type=all&from=${VAULT}&to=${HOT}`,
];

const ask = async (path: string) => {
  const startedAt = performance.now();
  const response = await api.get(path);
  const body = await response.text();
  return { status: response.status, headers: response.headers, body, ms: performance.now() - startedAt };
};

/** Metrics answer at once, whatever the database does. */
const readMetrics = async () => {
  const startedAt = performance.now();
  const metrics = parseMetrics(await api.metrics());
  expect(performance.now() - startedAt).toBeLessThan(500);
  const answered = samplesOf(metrics, "chain_answered").map(({ value }) => value);
  return { isReachable: readValue(metrics, "database_reachable"), answered };
};

const expectAnswers = async () => {
  const readStatus = async () => (await ask(CHECK)).status;
  await until("the API answers within 5 s", readStatus, 5, (status) => status === 200);
  for (const path of QUESTIONS) expect(await ask(path)).toMatchObject({ status: 200 });
  expect((await ask("/ready")).status).toBe(200);
  expect(await readMetrics()).toEqual({ isReachable: 1, answered: [1] });
};

/** Sends many requests over some seconds, and expects each to be refused within 2 s. */
const expectRefusals = async () => {
  const asked: ReturnType<typeof ask>[] = [];
  for (let round = 0; round < 60; round++) {
    for (const path of [...QUESTIONS, "/ready"]) asked.push(ask(path));
    await sleep(50);
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
  // Only the first ones have to wait to find out.
  expect(refusals.filter(({ ms }) => ms > 500).length).toBeLessThan(refusals.length / 2);

  expect((await ask("/health")).status).toBe(200);
  const { status, body } = await ask("/status");
  expect(status).toBe(200);
  expect(JSON.parse(body)).toMatchObject({ database: "out of reach", chains: [{ ready: false }] });
  expect(await readMetrics()).toEqual({ isReachable: 0, answered: [0] });
  const { networks } = JSON.parse((await ask("/explorer/networks")).body) as { networks: ExplorerNetwork[] };
  const unreachable = networks.filter(({ state }) => state === "unreachable");
  expect(unreachable.map(({ chainId }) => chainId)).toEqual([1]);
};

test("Postgres is stopped: 503 within 2 s, answers within 5 s of its return, and then every block, without a restart", async () => {
  await expectAnswers();
  const restart: Fault = {
    name: "postgres-restart",
    concerns: () => true,
    run: async (service) => {
      await service.stopPostgres("in order");
      await expectRefusals();
      // An API that starts meanwhile refuses too.
      const late = await startApi({ databaseUrl: service.databaseUrl, env: FRESH });
      const refusal = await late.get(CHECK);
      const problem = { type: "/docs#problem-database-unavailable" };
      expect([refusal.status, await refusal.json()]).toMatchObject([503, problem]);

      await service.startPostgres();
      await expectAnswers();
      await until("the late API answers too", async () => (await late.get(CHECK)).ok, 5);
    },
  };
  const { refused } = await survive(launched.service, restart);
  expect(refused).toBeGreaterThan(0);
});

test("Postgres hangs: 503 within 2 s, and answers within 5 s of its return, without a restart", async () => {
  const server = runningProcesses().find(({ command }) => command.includes(`${launched.directory}/postgres`));
  if (!server) throw new Error("There is no Postgres.");
  const children = runningProcesses().flatMap(({ pid, parent }) => (parent === server.pid ? pid : []));
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

test("another session locks the tables: 503 in time, at most 18 sessions, and answers as soon as it is gone", async () => {
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
  const { refused } = await survive(service, watched);
  expect(refused).toBeGreaterThan(0);
  // The number in docs/operating.md, and one that probes.
  expect(Math.max(...sessions)).toBeLessThanOrEqual(18);
  expect(service.indexerOutput.slice(printed)).not.toContain("starting it again");
});
