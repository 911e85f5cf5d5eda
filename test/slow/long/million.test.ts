import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { fillPlaceholders } from "drizzle-orm";
import pg from "pg";
import { pino } from "pino";
import { describe, expect } from "vitest";
import { bulkStatement } from "../../../api/bulk/bulk-checks.ts";
import { Database } from "../../../api/database/database.ts";
import { PLANNER_OPTIONS } from "../../../api/database/pools.ts";
import type { Statement } from "../../../api/database/statement.ts";
import { checkStatement } from "../../../api/delegations/check-delegation.ts";
import { listStatement, shortListsStatement } from "../../../api/delegations/list-statements.ts";
import { newestChangesStatement } from "../../../api/insights/read-insights.ts";
import { blocksStatement, chainsOfShards } from "../../../api/shards/read-shards.ts";
import { grantsStatement } from "../../../api/wallets/find-grants.ts";
import { activeStatement } from "../../../api/wallets/list-active.ts";
import { historyStatement } from "../../../api/wallets/read-history.ts";
import { CHECKS, checksOf } from "../../../registry/checks.ts";
import { type ApiProcess, createSampleDatabase } from "../../support/api.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { createLargeDatabase } from "../../support/million.ts";
import { readResidentMb, watchMemory } from "../../support/processes.ts";
import { isNightly } from "../../support/run.ts";
import { test as base } from "../../support/service-test.ts";
import { waitUntil } from "../../support/setup.ts";

// Guarantees that hold for any number of delegations, tested over a million.

const test = base
  .extend("million", { scope: "file" }, async ({}, { onCleanup }) => {
    const { client, ...million } = await createLargeDatabase(isNightly ? 1_000_000 : 300_000);
    onCleanup(() => client.end());
    return million;
  })
  .extend("databaseUrl", { scope: "file" }, ({ million }) => million.databaseUrl)
  .extend("planner", { scope: "file" }, ({ databaseUrl }, { onCleanup }) => openPlanner(databaseUrl, onCleanup))
  /** In a short log, every index costs the same. */
  .extend("famous", { scope: "file" }, async ({}, { onCleanup }) =>
    openPlanner(await createFamousDatabase(), onCleanup),
  );

/** Builds statements, and runs none. */
const writer = new Database("", pino({ enabled: false }));

const QUESTION = { chainId: "1", vault: "'0xa'", delegate: "'0xb'", contract: "'0xc'", tokenId: "1", rights: "'0xd'" };
const PLACE = { incomingBlock: "-1", incomingLog: "-1", outgoingBlock: "-1", outgoingLog: "-1" };
const arrays = (values: Record<string, string>) =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, `array[${value}]`]));

/** Every statement that reads answers, with SQL expressions as values. */
const STATEMENTS = (["v1", "v2"] as const).flatMap((version) => [
  ...checksOf(version).flatMap((check) => {
    const kind = { schema: "registry", check, moment: "now" } as const;
    return [
      { statement: checkStatement(writer, kind, "many"), values: arrays(QUESTION) },
      { statement: checkStatement(writer, kind, "one"), values: QUESTION },
    ];
  }),
  ...[false, true].flatMap((hasDetails) => {
    const kind = { schema: "registry", version, hasDetails, moment: "now" } as const;
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
  CHECKS.flatMap((check) =>
    Object.entries(arrays({ ...QUESTION, block: "5" })).map(([name, value]) => [
      `${check.version} ${check.name} ${name}`,
      value,
    ]),
  ),
);

/** Every statement that reads answers at a past block from the log. */
const PAST_STATEMENTS = (["v1", "v2"] as const).flatMap((version) => [
  ...checksOf(version).flatMap((check) => {
    const kind = { schema: "registry", check, moment: "past" } as const;
    const values = { ...QUESTION, block: "5" };
    return [
      { statement: checkStatement(writer, kind, "many"), values: arrays(values) },
      { statement: checkStatement(writer, kind, "one"), values },
    ];
  }),
  ...[false, true].flatMap((hasDetails) => {
    const kind = { schema: "registry", version, hasDetails, moment: "past" } as const;
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

/** Opens a connection with the API's planner settings. */
const openPlanner = async (connectionString: string, onCleanup: (close: () => Promise<void>) => void) => {
  const client = new pg.Client({ connectionString, options: PLANNER_OPTIONS });
  await client.connect();
  onCleanup(() => client.end());
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
  /** Counts the blocks that a statement reads. */
  const countBlocks = async (
    statement: Pick<Statement<unknown>, "text" | "params">,
    values: Record<string, string>,
  ) => {
    const plan = await explain(statement, values, "(analyze, buffers, timing off, summary off)");
    const [, hit = 0, read = 0] = /Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?/.exec(plan) ?? [];
    return { blocks: Number(hit) + Number(read), plan };
  };
  return { client, explain, countBlocks };
};

/** SQL values of a question about a wallet on Ethereum. */
const WALLET_VALUES = {
  wallet: `'${FAMOUS}'`,
  chain_id: "array[1]",
  asked_block: "array[null]::bigint[]",
  timestamp: "null",
  rows: "202",
};

/** Starts of a page of history: the newest change, within an event of 60,000 changes, older blocks, and a time. */
const HISTORY_STARTS = [
  { before_block: "9223372036854775807", before_ordinal: 0 },
  { before_block: CHANGES * 2, before_ordinal: CHANGES / 2 },
  { before_block: CHANGES / 2, before_ordinal: 0 },
  { before_block: "null", before_ordinal: 0, before_time: "1700000000" },
].map(({ before_block, before_ordinal, before_time = "null" }) => ({
  before_block: `array[${before_block}]::bigint[]`,
  before_log: "array[0]",
  before_ordinal: `array[${before_ordinal}]`,
  before_time: `array[${before_time}]::bigint[]`,
}));

describe.for([
  ["without statistics, as after a backfill", ""],
  ["with statistics", "analyze"],
] as const)("%s", ([, prepare]) => {
  test.beforeAll(async ({ planner, famous }) => {
    for (const { client } of [planner, famous]) await client.query(prepare);
  });

  test("every statement of the API uses an index", async ({ planner, famous }) => {
    for (const { statement, values } of STATEMENTS) {
      const { name } = statement;
      const plan = await planner.explain(statement, values);
      expect(plan, name).toMatch(/Index (Only )?Scan using \S+ on delegation_v/);
      // A check uses the whole key, and does not scan all delegations of a wallet.
      if (!name.includes("list")) expect(plan, name).not.toMatch(/Scan using \S*(log_index)\S* on delegation_v/);
      // A list uses the indexes for lists: incoming, and outgoing except to the wallet itself.
      for (const end of name.includes("list") ? ["vault", "delegate"] : []) {
        expect(plan, name).toMatch(new RegExp(`Scan using \\S*_${end}_block_number_log_index\\S* on delegation_v`));
      }
    }
    for (const { statement, values } of PAST_STATEMENTS) {
      const plan = await famous.explain(statement, values);
      // A delegation's latest change is found by its own index, never among a wallet's or a chain's.
      const indexes = [...plan.matchAll(/Scan(?: Backward)? using (\S+) on delegation_change/g)].map(
        ([, name]) => name,
      );
      const allowed = statement.name.includes("list") ? /_(delegation|vault|delegate)_index$/ : /_delegation_index$/;
      expect(indexes.length, statement.name).toBeGreaterThan(0);
      for (const index of indexes) expect(index, plan).toMatch(allowed);
    }
    for (const moment of ["now", "past"] as const) {
      const plan = await famous.explain(bulkStatement(writer, "registry", moment), { ...BULK, chainIds: "array[1]" });
      const index = moment === "now" ? /Scan using \S+ on delegation_v/ : /_delegation_index on delegation_change/;
      expect(plan).toMatch(index);
      expect(plan).not.toMatch(/Scan(?: Backward)? using \S*(log_index|change_(vault|delegate)_index)\S* on/);
    }
    const { sql: text, params } = chainsOfShards(writer).getQuery();
    await planner.explain({ text, params }, { shards: "array['registry']" });
    await planner.explain(blocksStatement(writer, "registry"));
    const plan = await famous.explain(newestChangesStatement(writer, "registry"), { chainId: "1" });
    expect(plan).toMatch(/Index Scan Backward using \S+_pk on delegation_change/);
  });

  test("a page of a wallet's history or delegations reads less than 1,000 blocks of 120,000 changes, from any cursor", async ({
    famous: { countBlocks },
  }) => {
    const expectBlocks = async (
      statement: Pick<Statement<unknown>, "text" | "params">,
      values: object,
      most = 1_000,
    ) => {
      const { blocks, plan } = await countBlocks(statement, { ...WALLET_VALUES, ...values });
      expect(blocks, plan).toBeLessThan(most);
    };
    for (const registry of ["both", "v2"] as const) {
      const history = historyStatement({ schema: "registry", registry, moment: "now" });
      for (const start of HISTORY_STARTS) await expectBlocks(history, start);
    }
    await expectBlocks(newestChangesStatement(writer, "registry"), { chainId: "1" }, 100);
    const delegations = activeStatement(writer, "registry", "v1,v2", "0,1", "now");
    for (const block of [-1, CHANGES / 2]) {
      const [blocks, logs] = [`array[${block}]`, "array[0]"];
      await expectBlocks(delegations, { in_block: blocks, in_log: logs, out_block: blocks, out_log: logs });
    }
  });

  test.for([
    ["delegate", "now"],
    ["delegate", "past"],
    ["vault", "now"],
    ["vault", "past"],
  ] as const)(
    "a page of wallets by their %s, %s, reads its rows only, whatever else 60,000 strangers have delegated",
    async ([end, moment], { famous: { countBlocks } }) => {
      const versions = ["v1" as const, "v2" as const];
      const statement = grantsStatement({ schema: "registry", end, check: "token", versions, isPair: false, moment });
      const { blocks, plan } = await countBlocks(statement, {
        ...WALLET_VALUES,
        ...{ contract: `'${CONTRACT}'`, rights: `'0x${"1".repeat(64)}'`, token_id: "7" },
        ...{ after_breadth: "array[-1]", after_block: "array[0]", after_log: "array[0]" },
        ...(moment === "past" && { asked_block: `array[${CHANGES * 3}]` }),
      });
      expect(blocks, plan).toBeLessThan(200);
      expect(plan).toMatch(moment === "now" ? /_scope_index on delegation_v/ : /_scope_index on delegation_change/);
    },
  );
});

const median = (numbers: number[]) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;

test("a check takes as long between wallets with 10,000 shared delegations as between wallets with one", async ({
  service: api,
  million,
}) => {
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
const readTokenIds = async (
  api: ApiProcess,
  path: string,
  onChunk: (chunks: number) => Promise<void> = async () => {},
) => {
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

test("a list of 200,000 delegations is sent completely, in less than 96 MB, without a table lock", async ({
  service: api,
  database,
  million,
}) => {
  const path = `/registry/v2/${million.popular}`;
  await api.get(`${path}?limit=1000`).then((response) => response.text());
  await api.get(`${path}?limit=1000`).then((response) => response.text());

  const before = readResidentMb(api.pid);
  const readPeak = watchMemory(api.pid);
  const ids = await readTokenIds(api, path, async (chunks) => {
    if (chunks !== 100) return;
    // An indexer could lock the tables now, as in a reorg.
    const { rows: held } = await database.query(
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

test("pipelined long lists on a closed connection leave their slots to other clients", async ({
  service: api,
  million,
}) => {
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
  expect(await readTokenIds(api, path)).toHaveLength(200_000);
});
