import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { fillPlaceholders } from "drizzle-orm";
import pg from "pg";
import { pino } from "pino";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { bulkStatement } from "../../../api/bulk/bulk-checks.ts";
import { Database } from "../../../api/database/database.ts";
import { PLANNER_OPTIONS } from "../../../api/database/pools.ts";
import type { Statement } from "../../../api/database/statement.ts";
import { checkStatement } from "../../../api/delegations/check-delegation.ts";
import { listStatement, shortListsStatement } from "../../../api/delegations/list-statements.ts";
import { newestChangesStatement } from "../../../api/insights/read-newest-changes.ts";
import { blocksStatement, chainsOfShards } from "../../../api/shards/read-shards.ts";
import { grantsStatement } from "../../../api/wallets/find-grants.ts";
import { activeStatement } from "../../../api/wallets/list-active.ts";
import { historyStatement } from "../../../api/wallets/read-history.ts";
import { CHECKS } from "../../../registry/check-rule.ts";
import { type ApiProcess as Api, createSampleDatabase, FRESH_FOR_A_DAY, launchApiProcess } from "../../support/api.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { createMillionDatabase } from "../../support/million.ts";
import { readResidentMb, watchMemory } from "../../support/processes.ts";
import { waitUntil } from "../../support/setup.ts";

// Guarantees that hold for any number of delegations, tested over a million.

let million: Awaited<ReturnType<typeof createMillionDatabase>>;
let api: Api;
beforeAll(async () => {
  million = await createMillionDatabase();
  api = await launchApiProcess({ databaseUrl: million.databaseUrl, env: FRESH_FOR_A_DAY });
}, 300_000);
afterAll(async () => {
  await api?.stop();
  await million?.client.end();
});

/** Builds statements, and runs none. */
const writer = new Database("", pino({ enabled: false }));

const QUESTION = { chainId: "1", vault: "'0xa'", delegate: "'0xb'", contract: "'0xc'", tokenId: "1", rights: "'0xd'" };
const PLACE = { incomingBlock: "-1", incomingLog: "-1", outgoingBlock: "-1", outgoingLog: "-1" };
const arrays = (values: Record<string, string>) =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, `array[${value}]`]));

/** Every statement that reads answers, with SQL expressions as values. */
const STATEMENTS = (["v1", "v2"] as const).flatMap((version) => [
  ...CHECKS[version].flatMap((check) => [
    { statement: checkStatement(writer, { schema: "registry", version, check }, "many"), values: arrays(QUESTION) },
    { statement: checkStatement(writer, { schema: "registry", version, check }, "one"), values: QUESTION },
  ]),
  ...[false, true].flatMap((hasDetails) => {
    const kind = { schema: "registry", version, hasDetails };
    const list = { chainId: "1", wallet: "'0xa'", ...PLACE };
    return [
      ...["100", "null"].map((limit) => ({
        statement: listStatement(writer, kind),
        values: { ...list, limit, rows: limit },
      })),
      {
        statement: shortListsStatement(writer, kind),
        values: { chainIds: "array[1, 1]", wallets: "array['0xa', '0xb']", blocks: "null::bigint[]" },
      },
    ];
  }),
]);

/** Values for statements with many checks: one of each kind. */
const BULK = Object.fromEntries(
  (["v1", "v2"] as const).flatMap((version) =>
    CHECKS[version].flatMap((check) =>
      Object.entries(arrays({ ...QUESTION, block: "5" })).map(([name, value]) => [
        `${version} ${check} ${name}`,
        value,
      ]),
    ),
  ),
);

/** Every statement that reads answers at a past block from the log. */
const PAST_STATEMENTS = (["v1", "v2"] as const).flatMap((version) => [
  ...CHECKS[version].flatMap((check) => {
    const kind = { schema: "registry", version, check };
    const values = { ...QUESTION, block: "5" };
    return [
      { statement: checkStatement(writer, kind, "many", "past"), values: arrays(values) },
      { statement: checkStatement(writer, kind, "one", "past"), values },
    ];
  }),
  ...[false, true].flatMap((hasDetails) => {
    const kind = { schema: "registry", version, hasDetails, block: "5" };
    const page: Record<string, string> = {
      chainId: "1",
      wallet: "'0xa'",
      ...PLACE,
      block: "5",
      limit: "5000",
      rows: "9",
    };
    const short: Record<string, string> = { chainIds: "array[1]", wallets: "array['0xa']", blocks: "array[5]" };
    return [
      { statement: listStatement(writer, kind), values: page },
      { statement: shortListsStatement(writer, kind), values: short },
    ];
  }),
]);

/** Opens a connection with the API's planner settings. */
const openPlanner = async (connectionString: string) => {
  const client = new pg.Client({ connectionString, options: PLANNER_OPTIONS });
  await client.connect();
  onTestFinished(() => client.end());
  /** @param values - SQL */
  const explain = async (
    { text, params }: Pick<Statement<unknown>, "text" | "params">,
    values: Record<string, string> = {},
    options = "",
  ) => {
    await client.query(`prepare asked as ${text}`);
    const given = fillPlaceholders(params, values);
    const { rows } = await client.query(`explain ${options} execute asked ${given.length ? `(${given.join()})` : ""}`);
    await client.query("deallocate asked");
    const plan = rows.map((row) => row["QUERY PLAN"]).join("\n");
    expect(plan, text).not.toContain("Seq Scan");
    return plan;
  };
  return { client, explain };
};

test.for([
  ["without statistics, as after a backfill", ""],
  ["with statistics", "analyze"],
] as const)("every statement of the API uses an index, %s", async ([, prepare]) => {
  const { client, explain } = await openPlanner(million.databaseUrl);
  await client.query(prepare);
  for (const { statement, values } of STATEMENTS) {
    const { name } = statement;
    const plan = await explain(statement, values);
    expect(plan, name).toMatch(/Index (Only )?Scan using \S+ on delegation_v/);
    // A check uses the whole key, and does not scan all delegations of a wallet.
    if (!name.includes("list")) expect(plan, name).not.toMatch(/Scan using \S*(log_index)\S* on delegation_v/);
    // A list uses the indexes for lists: incoming, and outgoing except to the wallet itself.
    for (const end of name.includes("list") ? ["vault", "delegate"] : []) {
      expect(plan, name).toMatch(new RegExp(`Scan using \\S*_${end}_block_number_log_index\\S* on delegation_v`));
    }
  }
  // In a short log, every index costs the same.
  const log = await openPlanner(await createFamousDatabase());
  await log.client.query(prepare);
  for (const { statement, values } of PAST_STATEMENTS) {
    const plan = await log.explain(statement, values);
    // A delegation's latest change is found by its own index, never among a wallet's or a chain's.
    const indexes = [...plan.matchAll(/Scan(?: Backward)? using (\S+) on delegation_change/g)].map(([, name]) => name);
    const allowed = statement.name.includes("list") ? /_(delegation|vault|delegate)_index$/ : /_delegation_index$/;
    expect(indexes.length, statement.name).toBeGreaterThan(0);
    for (const index of indexes) expect(index, plan).toMatch(allowed);
  }
  for (const moment of ["now", "past"] as const) {
    const plan = await log.explain(bulkStatement(writer, "registry", moment), { ...BULK, chainIds: "array[1]" });
    const index = moment === "now" ? /Scan using \S+ on delegation_v/ : /_delegation_index on delegation_change/;
    expect(plan).toMatch(index);
    expect(plan).not.toMatch(/Scan(?: Backward)? using \S*(log_index|change_(vault|delegate)_index)\S* on/);
  }
  const { sql: text, params } = chainsOfShards(writer).getQuery();
  await explain({ text, params }, { shards: "array['registry']" });
  await explain(blocksStatement(writer, "registry"));
  const plan = await log.explain(newestChangesStatement(writer, "registry"), { chainId: "1" });
  expect(plan).toMatch(/Index Scan Backward using \S+_pk on delegation_change/);
});

const median = (numbers: number[]) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;

test("a check takes as long between wallets with 10,000 shared delegations as between wallets with one", async () => {
  const { few, many, contract } = million;
  const check = async ({ vault, delegate }: typeof few) => {
    const startedAt = performance.now();
    const response = await api.get(
      `/registry/v2/check/erc721?delegate=${delegate}&vault=${vault}&contract=${contract}&tokenId=5000`,
    );
    expect(await response.text()).toBe("true");
    return performance.now() - startedAt;
  };
  const times = { few: [] as number[], many: [] as number[] };
  for (let round = 0; round < 500; round++) {
    times.few.push(await check(few));
    times.many.push(await check(many));
  }
  const ratio = median(times.many) / median(times.few);
  expect(ratio).toBeLessThanOrEqual(1.5);
});

/** Reads a list as it arrives, and keeps only the token ids. */
const readTokenIds = async (path: string, onChunk: (chunks: number) => Promise<void> = async () => {}) => {
  const response = await api.get(path);
  expect(response.status).toBe(200);
  const ids: string[] = [];
  let text = "";
  let chunks = 0;
  for await (const chunk of response.body ?? []) {
    await onChunk(++chunks);
    text += Buffer.from(chunk).toString();
    const whole = text.lastIndexOf("}") + 1;
    for (const [, id] of text.slice(0, whole).matchAll(/"tokenId":(\d+)/g)) if (id) ids.push(id);
    text = text.slice(whole);
  }
  expect(text).toBe("]");
  return ids;
};

test("a list of 200,000 delegations is sent completely, in less than 96 MB, without a table lock", async () => {
  const path = `/registry/v2/${million.popular}`;
  await api.get(`${path}?limit=1000`).then((response) => response.text());
  await api.get(`${path}?limit=1000`).then((response) => response.text());

  const before = readResidentMb(api.pid);
  const readPeak = watchMemory(api.pid);
  const ids = await readTokenIds(path, async (chunks) => {
    if (chunks !== 100) return;
    // An indexer could lock the tables now, as in a reorg.
    const { rows: held } = await million.client.query(
      `select relation::regclass, mode from pg_locks join pg_stat_activity activity using (pid)
       where application_name = 'api' and activity.datname = current_database() and locktype = 'relation'`,
    );
    expect(held).toEqual([]);
  });
  const peak = readPeak();

  // All of them, the oldest first.
  expect(ids).toHaveLength(200_000);
  expect(ids.every((id, index) => id === String(index + 1))).toBe(true);
  // Sent chunks, 30 MB in all, are garbage until the next collection. All rows at once would take 200 MB.
  expect(peak - before).toBeLessThan(96);
});

test("pipelined long lists on a closed connection leave their slots to other clients", async () => {
  const path = `/registry/v2/${million.popular}`;
  const list = `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;
  // The later ones never get their turn.
  const greedy = connect(api.port, "127.0.0.1");
  greedy.write(list.repeat(4));
  await sleep(1500);
  greedy.destroy();
  const readStatus = async () => {
    const response = await api.get(path);
    await response.body?.cancel();
    return response.status;
  };
  await waitUntil("long lists are sent", readStatus, 20, (status) => status === 200);
  expect(await readTokenIds(path)).toHaveLength(200_000);
});

const CHANGES = 60_000;
const FAMOUS = `0x${"fa".repeat(20)}`;
const CONTRACT = `0x${"c0".repeat(20)}`;

/** Creates a database with one wallet to which 60,000 others delegated in v1, and that revoked as many in one event. */
const createFamousDatabase = async () => {
  const databaseUrl = await createSampleDatabase();
  const client = new pg.Client(databaseUrl);
  await client.connect();
  const schema = await readServedSchema(client);
  const [numbered, hash] = ["'0x' || lpad(md5(i::text), 40, '0')", "'0x' || repeat(md5(i::text), 2)"];
  const insertChanges = (place: string, wallets: string, change: string) =>
    client.query(
      `insert into ${schema}.delegation_change (chain_id, block_number, log_index, ordinal, vault, delegate, registry, type,
         contract, token_id, rights, active, was_active, amount, event, made_block, made_log_index, block_timestamp, transaction_hash)
       select 1, ${place}, ${wallets}, 'v1', 'TOKEN', '${CONTRACT}', i, '0x${"0".repeat(64)}', ${change}, 1000 + i, i % 100, 1700000000, ${hash}
       from generate_series(1, ${CHANGES}) i`,
    );
  await client.query("set session_replication_role = replica");
  await insertChanges("1000 + i, i % 100, 0", `${numbered}, '${FAMOUS}'`, "true, false, 0, 'DelegateForToken'");
  await insertChanges(`${CHANGES} * 2, 0, i`, `'${FAMOUS}', ${numbered}`, "false, true, 0, 'RevokeAllDelegates'");
  await client.query(
    `insert into ${schema}.delegation_v1 (chain_id, vault, delegate, type, contract, token_id, block_number, log_index, block_timestamp, transaction_hash)
     select 1, ${numbered}, '${FAMOUS}', 'TOKEN', '${CONTRACT}', i, 1000 + i, i % 100, 1700000000, ${hash}
     from generate_series(1, ${CHANGES}) i`,
  );
  await client.end();
  return databaseUrl;
};

/** SQL values of a question about a wallet on Ethereum. */
const WALLET_VALUES = {
  wallet: `'${FAMOUS}'`,
  chain_id: "array[1]",
  asked_block: "array[null]::bigint[]",
  timestamp: "null",
  rows: "202",
};

const readBlocks = (plan: string): number => {
  const [, hit = 0, read = 0] = /Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?/.exec(plan) ?? [];
  return Number(hit) + Number(read);
};

const ANALYZE = "(analyze, buffers, timing off, summary off)";

test("a page of a wallet's history or delegations reads less than 1,000 blocks of 120,000 changes, from any cursor", async () => {
  const { client, explain } = await openPlanner(await createFamousDatabase());
  const before = (block: number | string, ordinal = 0) => ({
    before_block: `array[${block}]::bigint[]`,
    before_log: "array[0]",
    before_ordinal: `array[${ordinal}]`,
    before_time: "array[null]::bigint[]",
  });
  const after = (block: number) => ({
    in_block: `array[${block}]`,
    in_log: "array[0]",
    out_block: `array[${block}]`,
    out_log: "array[0]",
  });
  const byTime = { ...before("null"), before_time: "array[1700000000]" };
  for (const prepare of ["", "analyze"]) {
    await client.query(prepare);
    for (const registry of ["both", "v2"] as const)
      for (const from of [
        before("9223372036854775807"),
        before(CHANGES * 2, CHANGES / 2),
        before(CHANGES / 2),
        byTime,
      ]) {
        const history = historyStatement({ schema: "registry", registry, moment: "now" });
        const plan = await explain(history, { ...WALLET_VALUES, ...from }, ANALYZE);
        expect(readBlocks(plan), plan).toBeLessThan(1_000);
      }
    const newest = await explain(newestChangesStatement(writer, "registry"), { chainId: "1" }, ANALYZE);
    expect(readBlocks(newest), newest).toBeLessThan(100);
    const delegations = activeStatement(writer, "registry", "v1,v2", "0,1", "now");
    for (const from of [after(-1), after(CHANGES / 2)]) {
      const plan = await explain(delegations, { ...WALLET_VALUES, ...from }, ANALYZE);
      expect(readBlocks(plan), plan).toBeLessThan(1_000);
    }
  }
});

test("a page of vaults reads its rows only, whatever else 60,000 strangers have delegated", async () => {
  const { client, explain } = await openPlanner(await createFamousDatabase());
  const scope = { contract: `'${CONTRACT}'`, rights: `'0x${"1".repeat(64)}'`, token_id: "7" };
  const start = { after_breadth: "array[-1]", after_block: "array[0]", after_log: "array[0]" };
  for (const prepare of ["", "analyze"]) {
    await client.query(prepare);
    for (const end of ["delegate", "vault"] as const) {
      for (const moment of ["now", "past"] as const) {
        const statement = grantsStatement({
          schema: "registry",
          end,
          check: "token",
          versions: ["v1", "v2"],
          isPair: false,
          moment,
        });
        const asked = moment === "past" ? { asked_block: `array[${CHANGES * 3}]` } : {};
        const plan = await explain(statement, { ...WALLET_VALUES, ...scope, ...start, ...asked }, ANALYZE);
        expect(readBlocks(plan), plan).toBeLessThan(200);
        expect(plan).toMatch(moment === "now" ? /_scope_index on delegation_v/ : /_scope_index on delegation_change/);
      }
    }
  }
});
