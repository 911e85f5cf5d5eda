import { readFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { createClient, http } from "viem";
import { getBlock, getBlockNumber } from "viem/actions";
import { expect, test } from "vitest";
import { isPortFree } from "../../process/ports.ts";
import { listSandboxProcesses, resolveSandboxFolder, startDev } from "../support/local.ts";
import { ROOT } from "../support/run.ts";
import { waitUntil } from "../support/setup.ts";

const FOLDER = resolveSandboxFolder("test");

const V1 = {
  registry: "v1",
  types: ["ALL", "CONTRACT", "TOKEN"],
  events: ["DelegateForAll", "DelegateForContract", "DelegateForToken", "RevokeAllDelegates", "RevokeDelegate"],
  ended: true,
};
const V2 = {
  registry: "v2",
  types: ["ALL", "CONTRACT", "ERC1155", "ERC20", "ERC721"],
  events: ["DelegateAll", "DelegateContract", "DelegateERC1155", "DelegateERC20", "DelegateERC721"],
  ended: true,
};

test("npm run dev indexes delegations of every kind, prints working curl lines, and ends completely on Ctrl-C", async () => {
  const dev = await startDev(FOLDER);
  await dev.untilReady();

  const readme = readFileSync(join(ROOT, "README.md"), "utf8");
  const curls = dev.output().match(/curl ".*"/g) ?? [];
  const answers = await Promise.all(curls.map((curl) => fetch(curl.slice('curl "'.length, -1))));
  expect(await Promise.all(answers.map((answer) => answer.json()))).toEqual([true, expect.arrayContaining([])]);
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
  const { rows: weeks } = await client.query<{ week: number; changes: number }>(
    `select floor((extract(epoch from now()) - block_timestamp) / 604800)::int as week, count(*)::int as changes
     from registry.delegation_change group by 1 order by 1`,
  );
  await client.end();
  expect(rows).toEqual([1, 137].flatMap((chain) => [V1, V2].map((registry) => ({ chain, ...registry }))));
  expect([repriced.length, rights.length]).toEqual([2, 2]);
  // Changes in each of the last six weeks, and the most in the last.
  expect(weeks.map(({ week }) => week)).toEqual([0, 1, 2, 3, 4, 5]);
  expect(weeks[0]?.changes).toBe(Math.max(...weeks.map(({ changes }) => changes)));

  const chain = createClient({ transport: http(`http://127.0.0.1:${dev.chainPort}`), cacheTime: 0 });
  const before = await getBlockNumber(chain);
  await waitUntil(
    "the chain mines two blocks",
    () => getBlockNumber(chain),
    30,
    (block) => block >= before + 2n,
  );
  expect(Math.abs(Number((await getBlock(chain)).timestamp) - Date.now() / 1000)).toBeLessThan(10);

  dev.signal("SIGINT");
  await dev.exited;
  expect(listSandboxProcesses(FOLDER)).toEqual([]);
  for (const port of dev.ports) expect(await isPortFree("127.0.0.1", port)).toBe(true);
}, 400_000);
