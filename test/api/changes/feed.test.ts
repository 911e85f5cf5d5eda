import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { createPosition, encodeChangeCursor, type Position } from "../../../api/changes/change-cursor.ts";
import { ChangeFeed, Head } from "../../../api/changes/change-feed.ts";
import { ChangeStream } from "../../../api/changes/change-stream.ts";
import type { Filters } from "../../../api/changes/filters.ts";
import { readChanges } from "../../../api/changes/read-changes.ts";
import type { Database } from "../../../api/database/database.ts";
import { databaseUnavailable } from "../../../api/database/problems.ts";
import { Problem } from "../../../api/problem.ts";
import { readMessages } from "../../../api/webhooks/read-messages.ts";
import { VAULT } from "../../support/api.ts";
import { addBlock, openSampleLog } from "../../support/changes.ts";
import { waitUntil } from "../../support/setup.ts";

// The feed and its streams, with each read of the log in the test's hand.

const CHAIN = 1;
const FILTERS = { registry: "both" } as const;

const openFeed = async () => {
  const log = await openSampleLog();
  const { client, schema, database, shards } = log;
  const reads = { ofFeed: 0, ofStreams: 0 };
  const hooks = { before: async (_isOfFeed: boolean) => {}, after: async (_isOfFeed: boolean) => {} };
  const read: Database["read"] = async (pool, statement, values) => {
    // It has no last block.
    const isOfFeed = (values.to_block as unknown[]).every((block) => block === null);
    reads[isOfFeed ? "ofFeed" : "ofStreams"]++;
    await hooks.before(isOfFeed);
    const rows = await database.read(pool, statement, values);
    await hooks.after(isOfFeed);
    return rows;
  };
  const onError = vi.fn();
  const load = { countReaders: () => 0, countBehind: () => 0, readAt: null, drops: 0 };
  const feed = new ChangeFeed({ database: { read }, shards, load, onError });
  onTestFinished(() => {
    feed.stop();
    expect(onError).not.toHaveBeenCalled();
  });

  const chains = [CHAIN];
  /** @param position - null for the whole log */
  const openUnread = (position: Position | "now" | null, filters: Filters = FILTERS) => {
    const stream = new ChangeStream({
      feed,
      question: {
        filters,
        finality: "latest",
        name: "question",
        since: 0,
        findChains: () => chains,
        positions: new Map(position && [[CHAIN, position]]),
        unknown: [],
      },
      onEnd: () => {},
      abort: () => {},
      onError,
    });
    stream.start();
    return stream;
  };
  let newest = 0;
  return {
    ...log,
    feed,
    reads,
    hooks,
    openUnread,
    /** Opens a stream and reads all that it sends. */
    open: (position: Position | "now" = "now") => {
      const stream = openUnread(position);
      let text = "";
      const collect = async () => {
        for await (const part of stream.body.pipeThrough(new TextDecoderStream())) text += part;
      };
      const ended = collect();
      return { stream, ended, text: () => text, count: (event: string) => text.split(`event: ${event}\n`).length - 1 };
    },
    /** Adds a block with one change to the index. */
    addBlock: async () => {
      newest = await addBlock(client, VAULT);
    },
    /** Adds changes to the first block. */
    addChanges: (count: number) =>
      client.query(
        `insert into ${schema}.delegation_change
         select (jsonb_populate_record(one, jsonb_build_object('block_number', 1, 'log_index', i))).*
         from (select c as one from ${schema}.delegation_change c where chain_id = $1 and type = 'ALL' limit 1) c,
           generate_series(1, $2::int) i`,
        [CHAIN, count],
      ),
    countChanges: async (type: "ALL") => {
      const query = `select count(*)::int from ${schema}.delegation_change where chain_id = $1 and type = $2`;
      return (await client.query(query, [CHAIN, type])).rows[0].count;
    },
    newest: () => newest,
    readPosition: async (): Promise<Position> => {
      const asked = { chainId: CHAIN, position: null };
      const question = { filters: FILTERS, finality: "latest", since: 0, rows: 1_000, pool: "changes" } as const;
      const found = (await readChanges(database, shards, question, [asked])).get(asked);
      if (!found || found instanceof Problem || !found.position) throw new Error("The log cannot be read.");
      return found.position;
    },
  };
};

test("readers who resume at once catch up with a chain that has new blocks before all of them are served", async () => {
  const { feed, reads, hooks, open, addBlock, readPosition } = await openFeed();
  const READERS = 10;
  const BLOCKS_KNOWN = 3;
  const start = await readPosition();
  for (let block = 0; block < BLOCKS_KNOWN; block++) await addBlock();
  let blocks = BLOCKS_KNOWN;
  let mostBehind = 0;
  hooks.before = async (isOfFeed) => {
    mostBehind = Math.max(mostBehind, feed.load.countBehind());
    if (isOfFeed || reads.ofStreams % 5 !== 0) return;
    blocks++;
    await addBlock();
    await feed.waitForTick();
  };
  const readers = Array.from({ length: READERS }, () => open(start));
  await waitUntil("all have caught up, or have had ten reads each", () => {
    const hasCaughtUp = feed.load.countBehind() === 0 && readers.every(({ count }) => count("progress") > 0);
    return hasCaughtUp || reads.ofStreams > 10 * READERS;
  });
  expect([mostBehind, feed.load.countBehind()]).toEqual([READERS, 0]);
  await feed.waitForTick();
  expect(readers.map(({ count }) => count("change"))).toEqual(readers.map(() => blocks));
});

test("a stream that nobody reads keeps 64 kB and an event, whatever its filter, and then goes on", async () => {
  const { feed, reads, hooks, openUnread, addChanges, countChanges } = await openFeed();
  await addChanges(1_500);
  const stream = openUnread(null, { ...FILTERS, type: "ALL" });
  await waitUntil("it has read", () => reads.ofStreams);
  let before = -1;
  while (before < reads.ofStreams) {
    before = reads.ofStreams;
    for (let tick = 0; tick < 2; tick++) await feed.waitForTick();
  }
  // What it keeps comes before it reads again.
  let readAgain = () => {};
  const mayRead = new Promise<void>((resolve) => {
    readAgain = resolve;
  });
  hooks.before = (isOfFeed) => (isOfFeed ? Promise.resolve() : mayRead);
  const reader = stream.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part: string | undefined = ""; part !== undefined; ) {
    text += part;
    const next = reader.read().then(({ value }) => value);
    part = await Promise.race([next, nextTurn(undefined)]);
    if (part === undefined) {
      expect(text.length).toBeGreaterThan(64 * 1024);
      expect(text.length).toBeLessThan(66 * 1024);
      readAgain();
      text += await next;
    }
  }
  while (!text.includes("event: progress")) text += (await reader.read()).value;
  stream.close();
  const places = [...text.matchAll(/"blockNumber":(\d+),.*"logIndex":(\d+),"ordinal":(\d+)/g)].map((place) =>
    place
      .slice(1)
      .map((digits) => digits.padStart(10, "0"))
      .join(),
  );
  expect(places).toHaveLength(await countChanges("ALL"));
  expect(places).toEqual([...new Set(places)].sort());
});

test("a webhook reads a hundred messages at a time, whatever its filter", async () => {
  const { feed, shards, addChanges, countChanges } = await openFeed();
  await addChanges(250);
  const webhook = { filters: { ...FILTERS, type: "ALL" }, finality: "latest", chainIds: [CHAIN] } as const;
  const lengths: number[] = [];
  const bodies = new Set<string>();
  let cursor = encodeChangeCursor("q".repeat(16), 0, []);
  for (let hasMore = true; hasMore; ) {
    const read = await readMessages({ feed, shards }, { ...webhook, cursor });
    lengths.push(read.messages.length);
    for (const { body } of read.messages) bodies.add(body);
    ({ hasMore, after: cursor } = read);
  }
  expect(Math.max(...lengths)).toBe(100);
  const count = await countChanges("ALL");
  expect([bodies.size, lengths.reduce((sum, length) => sum + length, 0)]).toEqual([count, count]);
});

test("a stream that is closed while it waits joins no network", async () => {
  const { feed, open, openUnread } = await openFeed();
  const join = vi.spyOn(Head.prototype, "join");
  onTestFinished(() => join.mockRestore());
  const { count } = open();
  openUnread("now").close();
  await waitUntil("the other one is up to date", () => count("progress"));
  await feed.waitForTick();
  expect(join).toHaveBeenCalledTimes(1);
});

test("a stream whose final block the index has not reached reads nothing until it has", async () => {
  const { feed, reads, openUnread, addBlock, readPosition } = await openFeed();
  const { block } = await readPosition();
  const final = block + 2;
  const position = createPosition(CHAIN, { block: final, change: null, final, hash: "", blocks: null });
  const stream = openUnread(position);
  for (let tick = 0; tick < 3; tick++) await feed.waitForTick();
  expect(reads.ofStreams).toBe(0);
  for (let added = 0; added < 3; added++) await addBlock();
  const reader = stream.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.includes("event: progress")) text += (await reader.read()).value;
  expect([...text.matchAll(/"blockNumber":(\d+)/g)].map(([, number]) => Number(number))).toEqual([block + 3]);
});

test("a change comes with the first read after its block is in the index, twice a second", async () => {
  const { reads, hooks, open, addBlock, newest } = await openFeed();
  const { text, count } = open();
  await waitUntil("it is up to date", () => count("progress"));
  const ROUNDS = 3;
  const hasCome: boolean[] = [];
  const startedAt: number[] = [];
  let addedAfter = Number.POSITIVE_INFINITY;
  hooks.before = async () => {
    startedAt.push(performance.now());
    if (reads.ofFeed === addedAfter + 2) hasCome.push(text().includes(`"blockNumber":${newest()},`));
  };
  hooks.after = async () => {
    if (reads.ofFeed < addedAfter + 2 && addedAfter < Number.POSITIVE_INFINITY) return;
    await addBlock();
    addedAfter = reads.ofFeed;
  };
  await waitUntil("there was a read after each", () => hasCome.length === ROUNDS);
  expect(hasCome).toEqual(Array.from({ length: ROUNDS }, () => true));
  const pauses = startedAt.slice(1).map((at, index) => at - (startedAt[index] ?? 0));
  // The others may be longer on a busy machine.
  expect(Math.min(...pauses)).toBeLessThan(1_000);
});

test("the log is read once a tick, for one reader and for fifty", async () => {
  const { feed, reads, open } = await openFeed();
  const TICKS = 4;
  for (const more of [1, 49]) {
    const readers = Array.from({ length: more }, () => open());
    await waitUntil("they are up to date", () => readers.every(({ count }) => count("progress") > 0));
    await feed.waitForTick();
    const before = reads.ofFeed;
    for (let tick = 0; tick < TICKS; tick++) await feed.waitForTick();
    expect(reads.ofFeed - before).toBe(TICKS);
  }
  expect(reads.ofStreams).toBe(0);
});

test("the time since the log was last read counts from the first reader on", async () => {
  const { feed, hooks, open } = await openFeed();
  hooks.before = () => Promise.reject(databaseUnavailable());
  open();
  const { readAt } = feed.load;
  expect(readAt).toBeTypeOf("number");
  for (let tick = 0; tick < 2; tick++) await feed.waitForTick();
  expect(feed.load.readAt).toBe(readAt);
  hooks.before = async () => {};
  for (let tick = 0; tick < 2; tick++) await feed.waitForTick();
  expect(feed.load.readAt).toBeGreaterThan(Number(readAt));
});

test("a stream without changes is not silent for longer than ten seconds, and ends after an hour", async () => {
  const clock = vi.spyOn(performance, "now").mockReturnValue(0);
  onTestFinished(() => clock.mockRestore());
  const { feed, open } = await openFeed();
  const { text, count, ended } = open();
  await waitUntil("it is up to date", () => count("progress"));
  const readAt = async (ms: number) => {
    clock.mockReturnValue(ms);
    const before = text().length;
    // Streams are told after the others.
    for (let tick = 0; tick < 2; tick++) await feed.waitForTick();
    return text().slice(before);
  };
  expect(await readAt(10_000)).toBe("");
  expect(await readAt(10_001)).toMatch(/^event: progress\n/);
  expect(await readAt(20_001)).toBe("");
  clock.mockReturnValue(3_600_001);
  await ended;
  expect(text()).toMatch(/\n\nretry: \d{4}\n\n$/);
});
