import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { ANALYTICS_VERSION, defineAnalytics } from "../../indexer/analytics/definitions.ts";
import { formatCheckpoint } from "../../indexer/shards/checkpoint.ts";
import { IndexerDatabase } from "../../indexer/shards/index-database.ts";
import { AIRDROP, COIN, createSampleDatabase, GUEST, HOT, NFT, VAULT } from "../support/api.ts";
import { copyIndex, readServedSchema, takeCopy } from "../support/index-copy.ts";
import { createRole } from "../support/keys.ts";
import { connectClient, waitUntil } from "../support/setup.ts";

// Views and functions for data teams, over the sandbox's samples.

const setUp = async () => {
  const databaseUrl = await createSampleDatabase();
  const client = await connectClient(databaseUrl);
  const rows = async (text: string, values: unknown[] = []) => (await client.query(text, values)).rows;
  const value = async (text: string, values: unknown[] = []) => Object.values((await rows(text, values))[0] ?? {})[0];
  const error = (text: string): Promise<string> =>
    client.query(text).then(
      () => "none",
      ({ message, hint }: pg.DatabaseError) => [message, hint].filter(Boolean).join(". "),
    );
  const connectIndexer = async () => {
    const indexer = await IndexerDatabase.connect(databaseUrl);
    onTestFinished(() => indexer.close());
    return indexer;
  };
  return { databaseUrl, client, rows, value, error, connectIndexer };
};

const COUNT = "select count(*)::int from analytics.delegations";

test("analytics.delegations has null for unlimited fields, and the API's types", async () => {
  const { rows } = await setUp();
  const shown = await rows(
    `select registry, type, token_standard, contract, token_id, rights_text, amount, block_number::int
     from analytics.delegations where chain_id = 1 and vault = lower($1) order by block_number`,
    [VAULT],
  );
  const [nft, coin] = [NFT.toLowerCase(), COIN.toLowerCase()];
  const columns = { token_standard: null, contract: null, token_id: null, rights_text: null, amount: null };
  const row = (
    registry: string,
    type: string,
    block: number,
    limits: Partial<Record<keyof typeof columns, string>>,
  ) => ({
    ...columns,
    ...limits,
    registry,
    type,
    block_number: block,
  });
  expect(shown).toEqual([
    row("v2", "ALL", 1, {}),
    row("v2", "ALL", 2, { rights_text: "airdrop" }),
    row("v2", "CONTRACT", 3, { contract: nft }),
    row("v2", "TOKEN", 4, { token_standard: "ERC721", contract: nft, token_id: "8520" }),
    // A later change of the amount keeps the block of the first one.
    row("v2", "TOKEN", 5, { token_standard: "ERC20", contract: coin, amount: "250000" }),
    row("v2", "TOKEN", 6, {
      token_standard: "ERC1155",
      contract: nft,
      token_id: "7",
      rights_text: "airdrop",
      amount: "5",
    }),
    row("v1", "ALL", 14, {}),
    row("v1", "CONTRACT", 15, { contract: nft }),
    row("v1", "TOKEN", 16, { contract: nft, token_id: "8520" }),
  ]);
  expect(await rows("select distinct rights from analytics.delegations order by 1")).toEqual([
    { rights: AIRDROP },
    { rights: null },
  ]);
});

test("all views agree on the active delegations", async () => {
  const { rows, value } = await setUp();
  const block = await value("select indexed_block from analytics.chains where chain_id = 1");
  const key = "registry, type, token_standard, vault, delegate, contract, token_id, rights, amount";
  const active = await rows("select * from analytics.delegations where chain_id = 1 order by block_number, log_index");
  expect(await rows("select * from analytics.delegations_at(1, $1) order by block_number, log_index", [block])).toEqual(
    active,
  );
  const living = (columns: string, from: string) =>
    rows(`select ${key}, ${columns} from ${from} order by block, hash, 1, 2, 3, 4, 5, 6, 7, 8`);
  expect(
    await living(
      "started_block as block, started_at as at, started_transaction_hash as hash",
      "analytics.lifetimes where ended_block is null and chain_id = 1",
    ),
  ).toEqual(
    await living(
      "block_number as block, block_timestamp as at, transaction_hash as hash",
      "analytics.delegations where chain_id = 1",
    ),
  );
  // Daily counts match the log, and made minus revoked is active.
  const [days] = await rows(
    "select sum(made)::int as made, sum(changed)::int as changed, sum(revoked)::int as revoked from analytics.daily_activity where chain_id = 1",
  );
  const [log] = await rows(
    "select count(*)::int as changes, count(*) filter (where not active)::int as revoked from analytics.changes where chain_id = 1",
  );
  expect(days).toEqual({ made: active.length + log?.revoked, changed: 5, revoked: log?.revoked });
  expect(days?.made + days?.changed + days?.revoked).toBe(log?.changes);
  expect(
    await rows(
      "select sum(delegations_in)::int as incoming, sum(delegations_out)::int as outgoing from analytics.wallets where chain_id = 1",
    ),
  ).toEqual([{ incoming: active.length, outgoing: active.length }]);
  // An ended lifetime has its end, event and duration.
  expect(
    await rows(
      `select ended_block > started_block as later, ended_event, duration = ended_at - started_at as exact, amount
       from analytics.lifetimes where chain_id = 1 and token_standard = 'ERC1155' and ended_block is not null`,
    ),
  ).toEqual([{ later: true, ended_event: "DelegateERC1155", exact: true, amount: "3" }]);
});

test("checks accept every spelling of the API, at the newest block and at a past one", async () => {
  const { value } = await setUp();
  const pair = `1, '${HOT}', '${VAULT}'`;
  const guest = `1, '${GUEST}', '${VAULT}'`;
  const answers: [call: string, answer: boolean | string][] = [
    [`check_all(${pair})`, true],
    [`check_all(${pair.toLowerCase()}, '0x')`, true],
    [`check_all(chain_id => 1, "from" => '${VAULT}', "to" => '${HOT}', at_block => 0)`, false],
    [`check_all_v1(${pair})`, true],
    [`check_all_v1(${pair}, 13)`, false],
    [`check_all_v1(${pair}, 14)`, true],
    ...["airdrop", AIRDROP, AIRDROP.toUpperCase().replace("X", "x")].map((rights): [string, string] => [
      `check_erc1155(${guest}, '${NFT}', 7, '${rights}')`,
      "5",
    ]),
    ...["null", "''", "'0x'", `'0x${"0".repeat(64)}'`].map((rights): [string, string] => [
      `check_erc1155(${guest}, '${NFT}', 7, ${rights})`,
      "0",
    ]),
    [`check_erc20(${guest}, '${COIN}')`, "250000"],
    [`check_erc20(${guest}, '${COIN}', at_block => 5)`, "1000000"],
    [`check_erc721(${guest}, '${NFT}', 8520.0, at_block => 5)`, true],
    [`check_erc20(${pair}, '${COIN}')`, String(2n ** 256n - 1n)],
  ];
  for (const [call, answer] of answers) expect(await value(`select analytics.${call}`), call).toBe(answer);
});

const ADDRESS_ERROR = /^(to|from|delegate|vault|contract) must be 0x and 40 hex digits, not /;

test("checks raise an error with the expected format for a malformed argument", async () => {
  const { error } = await setUp();
  const bad: [call: string, message: string | RegExp][] = [
    [`check_all(1, '0x12', '${VAULT}')`, "to must be 0x and 40 hex digits, not '0x12'"],
    [`check_all(1, null, '${VAULT}')`, "to must be 0x and 40 hex digits, not NULL"],
    [`check_all_v1(1, '${HOT}', 'vitalik.eth')`, "vault must be 0x and 40 hex digits, not 'vitalik.eth'"],
    [`check_contract(1, '${HOT}', '${VAULT}', '${NFT} ')`, ADDRESS_ERROR],
    [
      `check_erc721(1, '${HOT}', '${VAULT}', '${NFT}', -1)`,
      "token_id must be a whole number from 0 to 2^256-1, not -1",
    ],
    [`check_erc721(1, '${HOT}', '${VAULT}', '${NFT}', 1.5)`, /whole number/],
    [`check_erc721(1, '${HOT}', '${VAULT}', '${NFT}', 2::numeric ^ 256)`, /whole number/],
    [`check_erc1155(1, '${HOT}', '${VAULT}', '${NFT}', null)`, /whole number.*not null/],
    [
      `check_all(1, '${HOT}', '${VAULT}', '0x12')`,
      /^rights must be 0x and 64 hex digits, or a text of at most 31 bytes/,
    ],
    [`check_all(1, '${HOT}', '${VAULT}', '${"ü".repeat(16)}')`, /^rights must be/],
    [`check_all(null, '${HOT}', '${VAULT}')`, "chain_id must not be null"],
    [`check_all(1, '${HOT}', '${VAULT}', null, -1)`, "at_block must not be negative, but is -1"],
    ["delegations_at(1, null)", "block must not be null"],
  ];
  for (const [call, message] of bad) {
    const said = await error(`select analytics.${call}`);
    if (typeof message === "string") expect(said, call).toBe(message);
    else expect(said, call).toMatch(message);
  }
});

test("checks and delegations_at() raise an error for an unknown chain, block or registry", async () => {
  const { client, error, value } = await setUp();
  const pair = (chain: number) => `${chain}, '${HOT}', '${VAULT}'`;
  const calls = (chain: number, at?: number) => {
    const last = at === undefined ? "" : `, at_block => ${at}`;
    return [
      `check_all(${pair(chain)}${last})`,
      `check_contract(${pair(chain)}, '${NFT}'${last})`,
      `check_erc721(${pair(chain)}, '${NFT}', 1${last})`,
      `check_erc20(${pair(chain)}, '${NFT}'${last})`,
      `check_erc1155(${pair(chain)}, '${NFT}', 1${last})`,
      `check_all_v1(${pair(chain)}${last})`,
      `check_contract_v1(${pair(chain)}, '${NFT}'${last})`,
      `check_token_v1(${pair(chain)}, '${NFT}', 1${last})`,
      `delegations_at(${chain}, ${at ?? 1})`,
    ];
  };
  const expectAll = async (asked: readonly string[], message: string | RegExp) => {
    for (const call of asked) expect(await error(`select analytics.${call}`), call).toMatch(message);
  };
  await expectAll(calls(10), /^Chain 10 is not indexed here. Indexed chains: 1, 137.$/);
  await expectAll(
    calls(1, 1_000_000),
    /^Block 1000000 of chain 1 is not indexed yet: the newest indexed block is \d+$/,
  );

  await client.query("update indexer.shard set caught_up = false");
  await expectAll(
    [...calls(1), ...calls(1, 3)],
    /^Chain 1 is still being indexed: its index has reached block \d+ of \d+/,
  );
  expect(await value("select indexed_block from analytics.chains where chain_id = 1")).toBeNull();
  await client.query("update indexer.shard set caught_up = true");

  await client.query("update indexer.chain set v1 = null");
  expect(await error(`select analytics.check_all_v1(${pair(1)})`)).toBe("The v1 registry is not indexed on chain 1");
  expect(await error(`select analytics.check_all(${pair(1)})`)).toBe("none");
});

test("every view, column and function has a comment, and a changed definition has a new version", async () => {
  const { rows } = await setUp();
  const silent = await rows(
    `select relname as name from pg_class
     where relnamespace in ('analytics'::regnamespace) and obj_description(oid, 'pg_class') is null
     union all
     select relname || '.' || attname from pg_class join pg_attribute on attrelid = pg_class.oid
     where relnamespace = 'analytics'::regnamespace and attnum > 0 and col_description(attrelid, attnum) is null
     union all
     select proname from pg_proc where pronamespace = 'analytics'::regnamespace and obj_description(oid, 'pg_proc') is null`,
  );
  expect(silent).toEqual([]);
  const functions = await rows(
    `select proname as name, proargnames as args, obj_description(oid, 'pg_proc') as comment
     from pg_proc where pronamespace = 'analytics'::regnamespace`,
  );
  for (const { name, args, comment } of functions) {
    for (const arg of args) expect(comment, `${name}: ${arg}`).toMatch(new RegExp(`\\b${arg}: `));
  }
  const hash = createHash("sha256")
    .update(JSON.stringify(defineAnalytics(["registry"])))
    .digest("hex")
    .slice(0, 16);
  // If the hash changes, raise ANALYTICS_VERSION, so that indexers with older definitions keep the newer ones.
  expect({ version: ANALYTICS_VERSION, hash }).toEqual({ version: 7, hash: "5b0645936bf99f9e" });
});

test("a role with access to the schema analytics only reads every view and calls every function", async () => {
  const { databaseUrl, client, rows, value } = await setUp();
  const { role, url } = await createRole(databaseUrl);
  await client.query(`grant usage on schema analytics to ${role}`);
  await client.query(`grant select on all tables in schema analytics to ${role}`);
  await client.query(`grant execute on all functions in schema analytics to ${role}`);

  const views = await rows("select relname as name from pg_class where relnamespace = 'analytics'::regnamespace");
  const expected = await value(COUNT);
  const analyst = await connectClient(url);
  expect(views.length).toBe(7);
  for (const { name } of views) {
    const { rowCount } = await analyst.query(`select * from analytics.${name}`);
    expect(rowCount, name).toBeGreaterThan(0);
  }
  expect((await analyst.query(COUNT)).rows).toEqual([{ count: expected }]);
  const calls = [
    `check_all(1, '${HOT}', '${VAULT}')`,
    `check_contract(1, '${HOT}', '${VAULT}', '${NFT}', at_block => 3)`,
    `check_erc721(1, '${HOT}', '${VAULT}', '${NFT}', 1)`,
    `check_erc20(1, '${HOT}', '${VAULT}', '${COIN}')`,
    `check_erc1155(1, '${HOT}', '${VAULT}', '${NFT}', 1)`,
    `check_all_v1(1, '${HOT}', '${VAULT}')`,
    `check_contract_v1(1, '${HOT}', '${VAULT}', '${NFT}')`,
    `check_token_v1(1, '${HOT}', '${VAULT}', '${NFT}', 1, 15)`,
    "known_block(1)",
    "delegations_at(1, 20)",
    "changes_after(1)",
  ];
  for (const call of calls) await analyst.query(`select analytics.${call}`);
  for (const table of [
    "registry.delegation_v2",
    "indexer.shard",
    "indexer.delegation_v2",
    `${await readServedSchema(client)}.delegation_v2`,
  ]) {
    await expect(analyst.query(`select * from ${table}`), table).rejects.toThrow(/permission denied/);
  }
  await expect(analyst.query("create view analytics.mine as select 1")).rejects.toThrow(/permission denied/);
  await analyst.end();
});

test("a chain of two shards is shown once, from the fresher shard that has caught up", async () => {
  const { databaseUrl, client, rows, value, connectIndexer } = await setUp();
  const all = await value(COUNT);
  await copyIndex(client, await readServedSchema(client), "other_0000000001");
  await client.query("update other_0000000001.indexed_block set timestamp = timestamp + 1 where chain_id = 1");
  // Rows of one shard only show which one is read.
  await client.query("delete from other_0000000001.delegation_v2 where chain_id = 1 and type = 'ERC20'");
  await client.query("delete from other_0000000001.delegation_change where chain_id = 1 and type = 'ERC20'");
  const { indexer, serve } = await takeCopy(databaseUrl, client, "other", "other_0000000001");
  expect(await serve()).toBe(true);
  await indexer.updateAnalytics();
  await indexer.close();

  const shards = () => rows("select chain_id::int as id, shard from analytics.chains order by 1");
  const coins = (chain: number) =>
    value("select count(*)::int from analytics.delegations where chain_id = $1 and token_standard = 'ERC20'", [chain]);
  const balance = () => value(`select analytics.check_erc20(1, '${GUEST}', '${VAULT}', '${COIN}')`);
  const past = () => value(`select analytics.check_erc20(1, '${GUEST}', '${VAULT}', '${COIN}', at_block => 5)`);
  expect(await shards()).toEqual([
    { id: 1, shard: "other" },
    { id: 137, shard: "other" },
  ]);
  expect(await value(COUNT)).toBe(Number(all) - 7);
  expect([await coins(1), await coins(137), await balance(), await past()]).toEqual([0, 7, "0", "0"]);

  await client.query("update indexer.shard set caught_up = false where name = 'other'");
  expect(await shards()).toEqual([
    { id: 1, shard: "registry" },
    { id: 137, shard: "registry" },
  ]);
  expect([await value(COUNT), await coins(1), await balance(), await past()]).toEqual([all, 7, "250000", "1000000"]);
  await client.query("update indexer.shard set caught_up = true where name = 'other'");
  expect(await coins(1)).toBe(0);

  // A shard without its rows in the schema indexer is not shown, and its schema can be dropped.
  await client.query("delete from indexer.index where shard = 'other'; delete from indexer.shard where name = 'other'");
  expect([await value(COUNT), await coins(1)]).toEqual([all, 7]);
  await (await connectIndexer()).updateAnalytics();
  await client.query("drop schema other_0000000001 cascade");
  expect([await value(COUNT), await balance()]).toEqual([all, "250000"]);
});

test("readers, grants and dependent views survive a re-index, even one that changes columns", async () => {
  const { databaseUrl, client, value } = await setUp();
  const expected = await value(COUNT);
  const { role } = await createRole(databaseUrl);
  await client.query(`grant select on analytics.delegations to ${role}`);
  await client.query(
    "create view public.of_a_data_team as select vault, count(*) from analytics.delegations group by 1",
  );

  let isReading = true;
  const seen = { reads: 0, slowestMs: 0, wrong: [] as unknown[] };
  const read = async () => {
    const reader = await connectClient(databaseUrl);
    while (isReading) {
      const startedAt = performance.now();
      const { rows } = await reader.query(
        `select (${COUNT}), (select count(*)::int from analytics.delegations_at(137, 20)) as past,
           analytics.check_all(1, '${HOT}', '${VAULT}') as held`,
      );
      seen.slowestMs = Math.max(seen.slowestMs, performance.now() - startedAt);
      seen.reads++;
      if (rows[0].count !== expected || !rows[0].held) seen.wrong.push(rows[0]);
      await sleep(1);
    }
  };
  const reading = [read(), read()];

  const old = await readServedSchema(client);
  await copyIndex(client, old, "registry_000000000a");
  await copyIndex(client, old, "registry_000000000b");
  // Other columns, in another order.
  await client.query("alter table registry_000000000b.delegation_v2 drop column log_index");
  await client.query(
    "alter table registry_000000000b.delegation_v2 add column note text, add column log_index integer default 0",
  );
  await client.query("alter table registry_000000000b.delegation_change drop column ordinal");
  await client.query("alter table registry_000000000b.delegation_change add column ordinal integer default 0");
  for (const schema of ["registry_000000000a", "registry_000000000b"]) {
    const { indexer, serve } = await takeCopy(databaseUrl, client, "registry", schema);
    // serve() yields to readers, and is retried.
    await waitUntil("the index is shown", () => serve().catch(() => false), 20);
    await indexer.updateAnalytics();
    expect(await readServedSchema(client)).toBe(schema);
    await sleep(200);
    await indexer.dropSuperseded("registry");
    await indexer.close();
  }
  await client.query(`drop schema if exists ${old} cascade`);
  await sleep(200);
  isReading = false;
  await Promise.all(reading);

  console.log(`${seen.reads} reads, the slowest took ${seen.slowestMs.toFixed(0)} ms.`);
  expect(seen.reads).toBeGreaterThan(50);
  expect(seen.wrong).toEqual([]);
  expect(await value("select count(*)::int from public.of_a_data_team")).toBeGreaterThan(0);
  expect(await value(`select has_table_privilege('${role}', 'analytics.delegations', 'select')`)).toBe(true);
});

test("updateAnalytics() keeps newer definitions, replaces older ones, and restores a missing view", async () => {
  const { databaseUrl, client, value, connectIndexer } = await setUp();
  const indexer = await connectIndexer();
  const comment = () => value("select obj_description('analytics'::regnamespace)");
  const setVersion = async (version: number) =>
    client.query(
      `comment on schema analytics is '${String(await comment()).replace(/version \d+/, `version ${version}`)}'`,
    );
  const definition = () => value("select pg_get_functiondef('analytics.chains_of'::regproc)");
  const [known, ours] = [await comment(), await definition()];
  const theirs = (body: string) =>
    `create or replace function analytics.chains_of(shard text) returns bigint[] language sql stable security definer as $$ ${body} $$`;
  await client.query(theirs("select array_agg(chain_id) from analytics.chains c where c.shard = $1"));
  const newer = await definition();
  expect(newer).not.toBe(ours);

  await setVersion(ANALYTICS_VERSION + 1);
  await indexer.updateAnalytics();
  expect(await definition()).toBe(newer);
  // Also for a shard that the definitions lack.
  await copyIndex(client, await readServedSchema(client), "other_0000000001");
  const other = await takeCopy(databaseUrl, client, "other", "other_0000000001");
  expect(await other.serve()).toBe(true);
  await other.indexer.updateAnalytics();
  expect([await definition(), await comment()]).toEqual([
    newer,
    String(known).replace(/version \d+/, `version ${ANALYTICS_VERSION + 1}`),
  ]);

  await setVersion(0);
  await other.indexer.updateAnalytics();
  expect(await definition()).toBe(ours);
  expect(await comment()).toBe(String(known).replace("registry.", "other, registry."));
  await other.indexer.close();

  await client.query("drop view analytics.delegations cascade");
  await indexer.updateAnalytics();
  expect(await value(COUNT)).toBeGreaterThan(0);
  expect(await value("select count(*)::int from analytics.delegations_at(1, 20)")).toBeGreaterThan(0);
});

test("updateAnalytics() gives up after a moment while a reader holds the views, and succeeds later", async () => {
  const { databaseUrl, client, value, connectIndexer } = await setUp();
  const indexer = await connectIndexer();
  const reader = await connectClient(databaseUrl);
  await reader.query("begin; select 1 from analytics.delegations limit 1");
  await client.query("drop view analytics.wallets; comment on schema analytics is null");
  const startedAt = performance.now();
  await indexer.updateAnalytics();
  expect(performance.now() - startedAt).toBeLessThan(1500);
  expect(await value("select to_regclass('analytics.wallets') is null")).toBe(true);
  await reader.query("commit");
  await indexer.updateAnalytics();
  expect(await value("select count(*)::int from analytics.wallets")).toBeGreaterThan(0);
});

test("transactions of any queries lock the tables in the order of a reorg", async () => {
  const { databaseUrl, client } = await setUp();
  const schema = await readServedSchema(client);
  const order = ["delegation_change", "delegation_v1", "delegation_v2", "indexed_block"];
  const pair = `1, '${HOT}', '${VAULT}'`;
  const questions = [
    ["select * from analytics.chains", "select * from analytics.delegations"],
    ["select * from analytics.delegations", "select * from analytics.delegations_at(1, 5)"],
    ["select * from analytics.chains join analytics.wallets using (chain_id)", "select * from analytics.changes"],
    [`select analytics.check_all(${pair}), analytics.check_all_v1(${pair})`, "select * from analytics.lifetimes"],
    [`select analytics.check_erc20(${pair}, '${COIN}')`, `select analytics.check_all(${pair}, null, 3)`],
    ["select * from analytics.daily_activity", `select analytics.check_all_v1(${pair})`],
    ["select * from analytics.contracts", "select * from analytics.changes"],
  ];
  const watcher = await connectClient(databaseUrl);
  for (const statements of questions) {
    const reader = await connectClient(databaseUrl);
    const { rows: backend } = await reader.query("select pg_backend_pid() as pid");
    // With a new plan, then with the cached one.
    for (const isCached of [false, true]) {
      for (const [place, table] of order.entries()) {
        await client.query(`begin; lock table ${schema}.${table} in access exclusive mode`);
        const reading = (async () => {
          await reader.query("begin");
          for (const statement of statements) await reader.query(statement);
          await reader.query("commit");
        })();
        const isWaiting = async () => {
          const { rows } = await watcher.query("select 1 from pg_locks where pid = $1 and not granted", [
            backend[0].pid,
          ]);
          return rows.length > 0;
        };
        await Promise.race([waitUntil("the reader waits", isWaiting, 10), reading]);
        const { rows: held } = await watcher.query(
          `select relname as name from pg_locks join pg_class on relation = pg_class.oid
           where pid = $1 and granted and relnamespace = to_regnamespace($2) and relname = any ($3)`,
          [backend[0].pid, schema, order],
        );
        await client.query("commit");
        await reading;
        expect(
          held.map(({ name }) => order.indexOf(name)).filter((held) => held >= place),
          `${statements}, cached: ${isCached}, ${table}`,
        ).toEqual([]);
      }
    }
    await reader.end();
  }
});

const ROWS = 100_000;

test("filters on the views use the tables' indexes, before and after the first analyze", async () => {
  const { client, rows } = await setUp();
  const schema = await readServedSchema(client);
  const address = (kind: string, number: string) => `'0x' || lpad(md5('${kind}' || (${number})), 40, '0')`;
  const key = `1, ${address("vault", "i / 3")}, ${address("delegate", "i / 2")}`;
  const scope = `${address("contract", "i % 5000")}, i`;
  const event = `i + 1000, i % 100, 1700000000 + i, '0x' || repeat(md5(i::text), 2)`;
  const zero = `'0x${"0".repeat(64)}'`;
  const columns = "chain_id, vault, delegate, type, contract, token_id";
  const eventColumns = "block_number, log_index, block_timestamp, transaction_hash";
  const from = `from generate_series(1, ${ROWS}) i`;
  // Disables the triggers for reorgs.
  await client.query("set session_replication_role = replica");
  await client.query(
    `insert into ${schema}.delegation_v1 (${columns}, ${eventColumns}) select ${key}, 'TOKEN', ${scope}, ${event} ${from}`,
  );
  await client.query(
    `insert into ${schema}.delegation_v2 (${columns}, rights, amount, ${eventColumns})
     select ${key}, 'ERC721', ${scope}, ${zero}, 0, ${event} ${from}`,
  );
  await client.query(
    `insert into ${schema}.delegation_change (${columns}, rights, amount, ${eventColumns}, registry, ordinal, active, was_active, event, made_block, made_log_index)
     select ${key}, 'ERC721', ${scope}, ${zero}, 0, ${event}, 'v2', 0, true, false, 'DelegateERC721', i + 1000, i % 100 ${from}`,
  );
  const wallet = "'0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266'";
  const filters: [view: string, filter: string, index: RegExp][] = [
    ["delegations", `chain_id = 1 and vault = ${wallet}`, /vault/],
    ["delegations", `vault = ${wallet}`, /vault/],
    ["delegations", `chain_id = 1 and delegate = ${wallet}`, /delegate/],
    ["delegations", `chain_id = 1 and vault = ${wallet} and delegate = ${wallet}`, /vault|delegate/],
    ["delegations", `chain_id = 1 and contract = ${wallet}`, /contract/],
    ["changes", `chain_id = 1 and vault = ${wallet}`, /vault/],
    ["changes", `chain_id = 1 and delegate = ${wallet}`, /delegate/],
    ["changes", `chain_id = 1 and contract = ${wallet}`, /contract/],
    ["changes", "chain_id = 1 and block_number between 2000 and 2100", /delegation_change_.*_pk/],
    ["lifetimes", `chain_id = 1 and vault = ${wallet}`, /vault/],
    ["lifetimes", `chain_id = 1 and contract = ${wallet}`, /contract/],
    ["wallets", `chain_id = 1 and wallet = ${wallet}`, /vault|delegate/],
  ];
  for (const statistics of ["none", "analyzed"]) {
    if (statistics === "analyzed") await client.query("analyze");
    for (const [view, filter, index] of filters) {
      const plan = (await rows(`explain select * from analytics.${view} where ${filter}`))
        .map((row) => row["QUERY PLAN"])
        .join("\n");
      const what = `${view}: ${filter}, statistics: ${statistics}\n${plan}`;
      expect(plan, what).not.toContain("Seq Scan");
      const used = [...plan.matchAll(/Index Scan (?:using|on) (\S+)/g)].map(([, name]) => name);
      expect(used.length, what).toBeGreaterThan(0);
      for (const name of used) expect(name, what).toMatch(index);
    }
    // A check probes the key: its number of pages does not grow with the table.
    const timed = await rows(
      `explain (analyze, buffers, timing off) select analytics.check_erc721(1, ${address("delegate", "7")}, ${address("vault", "7")}, ${address("contract", "7")}, 7)`,
    );
    const pages = Number(/shared hit=(\d+)/.exec(timed.map((row) => row["QUERY PLAN"]).join("\n"))?.[1]);
    expect(pages).toBeLessThan(1500);
  }
});

test("changes_after() reads the final log in pages, each change once, and refuses a position that is not final", async () => {
  const { rows, value, error, client } = await setUp();
  await client.query("set session_replication_role = replica");
  expect(await rows("select * from analytics.changes_after(1)")).toEqual([]);
  await client.query(`update ${await readServedSchema(client)}._ponder_checkpoint set finalized_checkpoint = $1`, [
    formatCheckpoint({ chainId: 1, number: 20, timestamp: 0n }),
  ]);

  const expected = await rows(
    "select * from analytics.changes where chain_id = 1 and block_number <= 20 order by block_number, log_index, ordinal",
  );
  const read: Record<string, unknown>[] = [];
  for (;;) {
    const { block_number = -1, log_index = null, ordinal = null } = read.at(-1) ?? {};
    const page = await rows("select * from analytics.changes_after(1, $1, $2, $3, 4)", [
      block_number,
      log_index,
      ordinal,
    ]);
    if (page.length === 0) break;
    read.push(...page);
  }
  expect(read).toEqual(expected);
  expect(read.length).toBeGreaterThan(8);
  const first = await value("select min(block_number) from analytics.changes_after(1, 10)");
  expect(Number(first)).toBe(11);

  expect(await error("select analytics.changes_after(1, 21)")).toMatch(/^Chain 1 is final up to block 20, /);
  expect(await error("select analytics.changes_after(10)")).toMatch(/^Chain 10 is not indexed here/);
  expect(await error("select analytics.changes_after(1, 5, 0)")).toMatch(/belong together/);
  expect(await error("select analytics.changes_after(1, max_rows => 0)")).toMatch(/at least 1/);
});
