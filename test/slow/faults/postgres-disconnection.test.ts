import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startEmbeddedPostgres } from "../../../stack/embedded-postgres.ts";
import { findFreePort } from "../../../stack/ports.ts";
import { type Api, CHECK, FRESH_FOR_A_DAY, HOT, indexSamples, launchApi, startApi, VAULT } from "../../support/api.ts";
import type { ExplorerNetwork } from "../../support/explorer.ts";
import { parseMetrics, readValue, samplesOf } from "../../support/metrics.ts";
import { runningProcesses } from "../../support/processes.ts";
import { until } from "../../support/setup.ts";

// A Postgres of its own, which can be stopped.

let directory: string;
let port: number;
let postgres: Awaited<ReturnType<typeof startEmbeddedPostgres>>;
let api: Api;

const start = () => startEmbeddedPostgres({ directory: join(directory, "postgres"), preferredPort: port });

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "delegation-registry-disconnection-"));
  await chmod(directory, 0o755);
  port = await findFreePort();
  postgres = await start();
  await indexSamples(postgres.url);
  api = await launchApi({ databaseUrl: postgres.url, env: FRESH_FOR_A_DAY });
});
afterAll(async () => {
  await api?.stop();
  await postgres?.stop().catch(() => {});
  await rm(directory, { recursive: true, force: true });
});

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

/** They say so, at once, whatever the database does. */
const readMetrics = async () => {
  const startedAt = performance.now();
  const metrics = parseMetrics(await api.metrics());
  expect(performance.now() - startedAt).toBeLessThan(500);
  const answered = samplesOf(metrics, "chain_answered").map(({ value }) => value);
  return { isReachable: readValue(metrics, "database_reachable"), answered };
};

const expectAnswers = async () => {
  for (const path of QUESTIONS) expect(await ask(path)).toMatchObject({ status: 200 });
  expect((await ask("/ready")).status).toBe(200);
  expect(await readMetrics()).toEqual({ isReachable: 1, answered: [1, 1] });
};

/** Many requests over some seconds: each is told within 2 s that the database is out of reach. */
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
  const slow = refusals.filter(({ ms }) => ms > 500).length;
  expect(slow).toBeLessThan(refusals.length / 2);

  expect((await ask("/health")).status).toBe(200);
  const { status, body } = await ask("/status");
  expect(status).toBe(200);
  expect(JSON.parse(body)).toMatchObject({ database: "out of reach", chains: [{ ready: false }, { ready: false }] });
  expect(await readMetrics()).toEqual({ isReachable: 0, answered: [0, 0] });
  const { networks } = JSON.parse((await ask("/explorer/networks")).body) as { networks: ExplorerNetwork[] };
  const unreachable = networks.filter(({ state }) => state === "unreachable");
  expect(unreachable.map(({ chainId }) => chainId)).toEqual([1, 137]);
};

test("Postgres is stopped: 503 within 2 s, and answers again within 5 s of its return, without a restart", async () => {
  await expectAnswers();
  await postgres.stop();
  await expectRefusals();
  // One that is started meanwhile says the same.
  const late = await startApi({ databaseUrl: postgres.url, env: FRESH_FOR_A_DAY });
  const refusal = await late.get(QUESTIONS[0] ?? "");
  expect([refusal.status, await refusal.json()]).toMatchObject([503, { type: "/docs#problem-database-unavailable" }]);

  postgres = await start();
  await until("it answers again", async () => (await ask(QUESTIONS[0] ?? "")).status === 200, 5);
  await expectAnswers();
  await until("so does the other one", async () => (await late.get(QUESTIONS[0] ?? "")).ok, 5);
});

test("Postgres hangs: 503 within 2 s, and answers again within 5 s of its waking, without a restart", async () => {
  const server = runningProcesses().find(({ command }) => command.includes(`${directory}/postgres`));
  if (!server) throw new Error("There is no Postgres.");
  const family = () => [
    server.pid,
    ...runningProcesses().flatMap(({ pid, parent }) => (parent === server.pid ? pid : [])),
  ];
  const hung = family();
  for (const pid of hung) process.kill(pid, "SIGSTOP");
  try {
    await expectRefusals();
  } finally {
    for (const pid of hung) process.kill(pid, "SIGCONT");
  }
  await until("it answers again", async () => (await ask(QUESTIONS[0] ?? "")).status === 200, 5);
  await expectAnswers();
  expect(api.output()).not.toMatch(/postgres:\/\//);
});
