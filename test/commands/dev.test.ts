import { exec } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import pg from "pg";
import { createClient, http } from "viem";
import { getBlockNumber } from "viem/actions";
import { expect, test } from "vitest";
import { isPortFree } from "../../stack/ports.ts";
import { type Dev, sandboxFolder, sandboxProcesses, startDev } from "../support/dev.ts";
import { runningProcesses } from "../support/processes.ts";
import { until } from "../support/setup.ts";

const ROOT = join(import.meta.dirname, "../..");
const FOLDER = sandboxFolder("test");

/** The process whose arguments and environment hold the given texts. */
const processWith = (...texts: string[]) =>
  runningProcesses().find(({ command, environment }) =>
    texts.every((text) => `${command}${environment}`.includes(text)),
  )?.pid;

test("npm run dev is ready within 60 s with delegations of every kind, runs once, and Ctrl-C leaves nothing behind", async () => {
  const dev = await startDev(FOLDER);
  await dev.untilReady();

  // What it says to try works.
  const readme = readFileSync(join(ROOT, "README.md"), "utf8");
  const curls = dev.output().match(/curl ".*"/g) ?? [];
  const answers = await Promise.all(curls.map((curl) => promisify(exec)(`${curl} -s`)));
  expect(answers.map(({ stdout }) => JSON.parse(stdout))).toEqual([true, expect.arrayContaining([])]);
  for (const curl of curls) expect(readme).toContain(curl.replace(String(dev.apiPort), "8080"));

  const client = new pg.Client(dev.databaseUrl());
  await client.connect();
  const { rows } = await client.query(
    `select chain_id::int as chain, registry, array_agg(distinct type order by type) as types,
            array_agg(distinct event order by event) as events, bool_or(not active) as ended
     from registry.delegation_change group by 1, 2 order by 1, 2`,
  );
  const { rows: repriced } = await client.query(
    "select 1 from registry.delegation_v2 where type = 'ERC20' and amount = 250000",
  );
  const { rows: rights } = await client.query("select distinct rights from registry.delegation_v2");
  await client.end();
  const v1 = {
    registry: "v1",
    types: ["ALL", "CONTRACT", "TOKEN"],
    events: ["DelegateForAll", "DelegateForContract", "DelegateForToken", "RevokeAllDelegates", "RevokeDelegate"],
    ended: true,
  };
  const v2 = {
    registry: "v2",
    types: ["ALL", "CONTRACT", "ERC1155", "ERC20", "ERC721"],
    events: ["DelegateAll", "DelegateContract", "DelegateERC1155", "DelegateERC20", "DelegateERC721"],
    ended: true,
  };
  expect(rows).toEqual(
    [1, 137].flatMap((chain) => [
      { chain, ...v1 },
      { chain, ...v2 },
    ]),
  );
  expect(repriced).toHaveLength(2);
  expect(rights).toHaveLength(2);

  // The chains go on by themselves.
  const chain = createClient({ transport: http(`http://127.0.0.1:${dev.chainPort}`), cacheTime: 0 });
  const before = await getBlockNumber(chain);
  await sleep(4500);
  expect(Number((await getBlockNumber(chain)) - before)).toBeGreaterThanOrEqual(2);

  // A second one is told which ports are taken, or that one runs already.
  const busy = await startDev(FOLDER, {
    SANDBOX_PORT: String(dev.chainPort),
    INDEXER_PORT: String(dev.indexerPort),
    PORT: String(dev.apiPort),
  });
  expect(await busy.exited).toBe(1);
  for (const port of dev.ports) {
    expect(busy.output()).toMatch(new RegExp(`port ${port}, for .*, is in use`));
  }
  const second = await startDev(FOLDER);
  expect(await second.exited).toBe(1);
  expect(second.output()).toContain("It is running already");
  for (const { output } of [busy, second]) expect(output()).not.toMatch(/^\s+at /m);

  dev.signal("SIGINT");
  await dev.exited;
  expect(sandboxProcesses(FOLDER)).toEqual([]);
  for (const port of dev.ports) {
    expect(await isPortFree("127.0.0.1", port)).toBe(true);
  }
});

test.for([
  ["The indexer", (dev: Dev) => Number(processWith(`ponder.js\0start`, `PORT=${dev.indexerPort}\0`))],
  ["The API", (dev: Dev) => Number(processWith("api/main.ts", `PORT=${dev.apiPort}\0`))],
  ["Postgres", () => Number(processWith("postgres\0-D\0", `SANDBOX_DATA=${FOLDER}\0`))],
] as const)("npm run dev ends as a whole when a part of it dies: %s", async ([name, pidOf]) => {
  const dev = await startDev(FOLDER);
  await dev.untilReady(120);
  process.kill(pidOf(dev), "SIGKILL");
  expect(await dev.exited).toBe(1);
  expect(dev.output()).toContain(`${name} ended by itself`);
  await until("nothing is left behind", async () => sandboxProcesses(FOLDER).length === 0, 15);
});

test("npm run dev after one that was killed cleans up what that one left", async () => {
  const killed = await startDev(FOLDER);
  await killed.untilReady(120);
  killed.signal("SIGKILL");
  await killed.exited;

  const next = await startDev(FOLDER);
  await next.untilReady(120);
});
