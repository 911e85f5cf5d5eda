import { Agent, type IncomingMessage, request } from "node:http";
import { expect } from "vitest";
import type { ApiProcess } from "../../support/api.ts";
import { type LiveChange, openStream, type StreamEvent } from "../../support/changes.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { addKey } from "../../support/keys.ts";
import { parseMetrics, readValue } from "../../support/metrics.ts";
import { readResidentMb, watchMemory } from "../../support/processes.ts";
import { test as base, measureAlone } from "../../support/service-test.ts";
import { waitUntil } from "../../support/setup.ts";
import { setFinalBlock } from "../../support/wallets.ts";

// Readers of live changes. docs/api.md gives the limits.

const READERS = 1_000;
const PER_OWNER = 100;
const UNREAD = 40_000;

const test = base
  /** The log with so many more changes that no connection has room for them. */
  .extend("longLog", { scope: "file" }, async ({ database }) => {
    const schema = await readServedSchema(database);
    await database.query("set session_replication_role = replica");
    await database.query(
      `insert into ${schema}.delegation_change (chain_id, block_number, log_index, ordinal, registry, vault, delegate, type, contract, token_id, rights, active, amount, event, block_timestamp, transaction_hash, was_active, made_block, made_log_index)
       select chain_id, 60, 1000 + i, 0, registry, vault, delegate, type, contract, token_id, rights, active, amount, event, block_timestamp, transaction_hash, was_active, made_block, made_log_index
       from (select * from ${schema}.delegation_change where chain_id = 1 and type = 'ALL' limit 1) change, generate_series(1, ${UNREAD}) i`,
    );
    await setFinalBlock(database, schema, 63);
  });

const open = (api: ApiProcess, path: string, headers = {}): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    const agent = new Agent();
    const asked = request(
      { port: api.port, path, agent, headers: { Accept: "text/event-stream", ...headers } },
      resolve,
    );
    asked.on("error", reject);
    asked.end();
  });

/** Copies a change, so that it is in the next block. */
const addBlock = async (database: Parameters<typeof readServedSchema>[0]) => {
  const schema = await readServedSchema(database);
  await database.query("set session_replication_role = replica");
  await database.query(
    `begin;
     insert into ${schema}.delegation_change (chain_id, block_number, log_index, ordinal, registry, vault, delegate, type, contract, token_id, rights, active, amount, event, block_timestamp, transaction_hash, was_active, made_block, made_log_index)
     select chain_id, 64, log_index, ordinal, registry, vault, delegate, type, contract, token_id, rights, active, amount, event, block_timestamp, transaction_hash, was_active, made_block, made_log_index
     from ${schema}.delegation_change where chain_id = 1 order by block_number desc, log_index limit 1;
     update ${schema}.indexed_block set number = 64 where chain_id = 1;
     commit`,
  );
};

test("a thousand streams take less than 100 MB, get a change each, and delay no check for long", async ({
  service: api,
  database,
}) => {
  const alone = await measureAlone(api, 3_000);
  const before = readResidentMb(api.pid);
  const readPeak = watchMemory(api.pid);
  const streams: IncomingMessage[] = [];
  let got = 0;
  for (let owner = 0; owner < READERS / PER_OWNER; owner++) {
    const { key } = await addKey(database);
    const opened = Array.from({ length: PER_OWNER }, () => open(api, "/changes?finality=latest", { "X-API-KEY": key }));
    streams.push(...(await Promise.all(opened)));
  }
  for (const stream of streams) {
    expect(stream.statusCode).toBe(200);
    stream.on("data", (chunk: Buffer) => {
      if (chunk.includes("event: change")) got++;
    });
    stream.on("error", () => {});
  }
  const meanwhile = await measureAlone(api, 15_000);
  await addBlock(database);
  await waitUntil(
    "each reader has the change",
    () => got,
    30,
    (count) => count === READERS,
  );
  const grown = readPeak() - before;
  console.log({ grown: `${grown.toFixed(0)} MB`, alone, meanwhile });
  for (const stream of streams) stream.destroy();
  expect(grown).toBeLessThan(100);
  expect(meanwhile.median).toBeLessThan(alone.median * 3 + 50);
  await waitUntil("no stream is open", async () => /changes_readers 0$/m.test(await api.metrics()));
});

const readDrops = async (api: ApiProcess) => Number(/changes_drops_total (\d+)$/m.exec(await api.metrics())?.[1]);

test("a hundred readers who do not read take less than 300 kB each, whatever their filter, until they are cut off", async ({
  service: api,
  database,
  longLog: _,
}) => {
  const { key } = await addKey(database);
  const dropsBefore = await readDrops(api);
  // What waits for readers. The process' own memory has what is not collected yet.
  const readText = async () => readValue(parseMetrics(await api.metrics()), "nodejs_external_memory_bytes");
  const before = await readText();
  const streams = await Promise.all(
    Array.from({ length: PER_OWNER }, () =>
      open(api, "/changes?finality=latest&chainId=1&type=ALL&cursor=start", { "X-API-KEY": key }),
    ),
  );
  for (const stream of streams) {
    expect(stream.statusCode).toBe(200);
    stream.on("error", () => {});
  }
  let kept = Number.NaN;
  const countDrops = async () => {
    const [text, drops] = [await readText(), await readDrops(api)];
    if (drops === dropsBefore) kept = text - before;
    return drops - dropsBefore;
  };
  await waitUntil("all are cut off", countDrops, 240, (drops) => drops === PER_OWNER);
  console.log({ kept: `${(kept / 1e6).toFixed(1)} MB` });
  for (const stream of streams) stream.destroy();
  expect(kept).toBeLessThan(PER_OWNER * 300_000);
});

test("a reader that does not read is cut off, and goes on where it was", async ({
  service: api,
  database,
  longLog: _,
}) => {
  const query = "?finality=latest&chainId=1&cursor=start";
  const dropsBefore = await readDrops(api);
  const before = readResidentMb(api.pid);
  const readPeak = watchMemory(api.pid);
  const unread = await open(api, `/changes${query}`);
  await waitUntil(
    "it is cut off",
    () => readDrops(api),
    90,
    (drops) => drops === dropsBefore + 1,
  );
  expect(readPeak() - before).toBeLessThan(50);
  let text = "";
  unread.setEncoding("utf8");
  await new Promise((resolve) => {
    unread.on("data", (chunk: string) => {
      text += chunk;
    });
    unread.on("error", () => {});
    unread.on("close", resolve);
  });
  const events = text.slice(0, text.lastIndexOf("\n\n")).split("\n\n");
  const ids = events.flatMap((event) => /^id: (.*)$/m.exec(event)?.[1] ?? []);
  expect(ids.length).toBeLessThan(UNREAD);

  const rest = await openStream(api, query, ids.at(-1));
  const isLast = ({ event, data }: StreamEvent) => event === "progress" && data.blocks[1] !== undefined;
  const changes = (await rest.readUntil(isLast)).flatMap(({ event, data }): LiveChange[] =>
    event === "change" ? [data as LiveChange] : [],
  );
  const { rows } = await database.query(
    "select count(*)::int as count from registry.delegation_change where chain_id = 1",
  );
  const read = events.filter((event) => event.includes("event: change")).length;
  expect(read + changes.length).toBe(rows[0].count);
});
