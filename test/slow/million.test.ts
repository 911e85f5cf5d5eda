import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { fillPlaceholders } from "drizzle-orm";
import pg from "pg";
import { pino } from "pino";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { Database, PLANNING, type Statement } from "../../api/database.ts";
import { checkStatement } from "../../api/queries/check-delegation.ts";
import { activeStatement } from "../../api/queries/explorer/list-active.ts";
import { historyStatement } from "../../api/queries/explorer/read-history.ts";
import { NEWEST } from "../../api/queries/explorer/rows.ts";
import { listStatement, shortListsStatement } from "../../api/queries/list-delegations.ts";
import { blocksStatement, chainsOfShards } from "../../api/queries/read-shards.ts";
import { CHECKS } from "../../registry/check-rule.ts";
import { type ApiProcess as Api, createSampleDatabase, FRESH_FOR_A_DAY, launchApiProcess } from "../support/api.ts";
import { servedSchema } from "../support/index-copy.ts";
import { residentMb, watchMemory } from "../support/measure.ts";
import { createMillionDatabase } from "../support/million.ts";
import { until } from "../support/setup.ts";

// What holds however many delegations there are: over a million.

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

/** What writes statements, and asks nothing. */
const writer = new Database("", pino({ enabled: false }));

const QUESTION = { chainId: "1", vault: "'0xa'", delegate: "'0xb'", contract: "'0xc'", tokenId: "1", rights: "'0xd'" };
const PLACE = { incomingBlock: "-1", incomingLog: "-1", outgoingBlock: "-1", outgoingLog: "-1" };
const arrays = (values: Record<string, string>) =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, `array[${value}]`]));

/** Every statement that answers are read with. The values are SQL. */
const STATEMENTS = (["v1", "v2"] as const).flatMap((version) => [
  ...CHECKS[version].flatMap((check) => [
    { statement: checkStatement(writer, "registry", version, check, "many"), values: arrays(QUESTION) },
    { statement: checkStatement(writer, "registry", version, check, "one"), values: QUESTION },
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
        values: { chainIds: "array[1, 1]", wallets: "array['0xa', '0xb']" },
      },
    ];
  }),
]);

/** A connection that plans as the API's do. */
const openPlanner = async (connectionString: string) => {
  const client = new pg.Client({ connectionString, options: PLANNING });
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
] as const)("every statement of the API finds its rows by an index %s", async ([, prepare]) => {
  const { client, explain } = await openPlanner(million.databaseUrl);
  await client.query(prepare);
  for (const { statement, values } of STATEMENTS) {
    const { name } = statement;
    const plan = await explain(statement, values);
    expect(plan, name).toMatch(/Index (Only )?Scan using \S+ on delegation_v/);
    // A check goes by the whole key: not by all delegations of a wallet.
    if (!name.includes("list")) expect(plan, name).not.toMatch(/Scan using \S*(log_index)\S* on delegation_v/);
    // A list by the indexes that are for it: of what comes in, and of what goes out and not back to the wallet itself.
    for (const end of name.includes("list") ? ["vault", "delegate"] : []) {
      expect(plan, name).toMatch(new RegExp(`Scan using \\S*_${end}_block_number_log_index\\S* on delegation_v`));
    }
  }
  const { sql: text, params } = chainsOfShards(writer).getQuery();
  await explain({ text, params }, { shards: "array['registry']" });
  await explain(blocksStatement(writer, "registry"));
});

const median = (numbers: number[]) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;

test("a check between wallets that share 10,000 delegations costs no more than between wallets that share one", async () => {
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

/** Reads a list as it arrives, and keeps no more than the token ids. */
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

test("a list of 200,000 delegations is sent whole, in less than 96 MB, and locks no table meanwhile", async () => {
  const path = `/registry/v2/${million.popular}`;
  await api.get(`${path}?limit=1000`).then((response) => response.text());
  await api.get(`${path}?limit=1000`).then((response) => response.text());

  const before = residentMb(api.pid);
  const readPeak = watchMemory(api.pid);
  const ids = await readTokenIds(path, async (chunks) => {
    if (chunks !== 100) return;
    // An indexer could lock the tables now, as it does in a reorg.
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
  // The parts that were sent, 30 MB in all, are collected when there are enough of them; the whole as rows would be 200 MB.
  expect(peak - before).toBeLessThan(96);
});

test("readers that go away before, at the start or in the middle of a list leave their place to others", async () => {
  const path = `/registry/v2/${million.popular}`;
  const isSent = async () => {
    const response = await api.get(path);
    await response.body?.cancel();
    return response.status;
  };
  const untilSent = () => until("long lists are sent", isSent, 60, (status) => status === 200);
  for (let round = 0; round < 12; round++) {
    const leaving = new AbortController();
    const response = await api.get(path, { signal: leaving.signal });
    await response.body?.getReader().read();
    leaving.abort();
  }
  await untilSent();

  const list = `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;
  for (let round = 0; round < 12; round++) {
    const socket = connect(api.port, "127.0.0.1");
    socket.write(list);
    // Some leave while the list is being looked for, some when it has been found.
    await sleep(round * 20);
    socket.destroy();
  }
  await untilSent();

  // Several at once over one connection: the later ones never get their turn.
  const greedy = connect(api.port, "127.0.0.1");
  greedy.write(list.repeat(4));
  await sleep(1500);
  greedy.destroy();
  await untilSent();
  expect(await readTokenIds(path)).toHaveLength(200_000);
});

const CHANGES = 60_000;
const FAMOUS = `0x${"fa".repeat(20)}`;
const CONTRACT = `0x${"c0".repeat(20)}`;

/** One wallet that 60,000 others delegated to in v1, and that revoked as many of its own in one event. */
const createFamousDatabase = async () => {
  const databaseUrl = await createSampleDatabase();
  const client = new pg.Client(databaseUrl);
  await client.connect();
  const schema = await servedSchema(client);
  const [numbered, hash] = ["'0x' || lpad(md5(i::text), 40, '0')", "'0x' || repeat(md5(i::text), 2)"];
  const insertChanges = (place: string, wallets: string, change: string) =>
    client.query(
      `insert into ${schema}.delegation_change (chain_id, block_number, log_index, ordinal, vault, delegate, registry, type,
         contract, token_id, rights, active, was_active, amount, event, block_timestamp, transaction_hash)
       select 1, ${place}, ${wallets}, 'v1', 'TOKEN', '${CONTRACT}', i, '0x${"0".repeat(64)}', ${change}, 1700000000, ${hash}
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

test("a page of the explorer reads less than 400 blocks for a wallet with 120,000 changes, anywhere in a mass revocation", async () => {
  const { client, explain } = await openPlanner(await createFamousDatabase());
  const expectFewBlocks = async (statement: Statement<unknown>, place: Record<string, string>) => {
    const values = { chainId: "1", wallet: `'${FAMOUS}'`, ...place, limit: "51" };
    const plan = await explain(statement, values, "(analyze, buffers, timing off, summary off)");
    const [, hit = 0, read = 0] = /Buffers: shared(?: hit=(\d+))?(?: read=(\d+))?/.exec(plan) ?? [];
    expect(Number(hit) + Number(read), JSON.stringify(place)).toBeLessThan(400);
  };
  const place = (blockNumber: number | string, ordinal = 0) => ({
    blockNumber: `${blockNumber}`,
    logIndex: "0",
    ordinal: `${ordinal}`,
  });
  const newest = place(NEWEST.blockNumber);
  for (const prepare of ["", "analyze"]) {
    await client.query(prepare);
    for (const from of [newest, place(CHANGES * 2, CHANGES / 2), place(CHANGES / 2)]) {
      await expectFewBlocks(historyStatement(writer, "registry"), from);
    }
    for (const from of [newest, place(CHANGES / 2)]) {
      for (const direction of ["in", "out"] as const)
        await expectFewBlocks(activeStatement(writer, "registry", direction), from);
    }
  }
});
