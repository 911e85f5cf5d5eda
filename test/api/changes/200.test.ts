import { expect } from "vitest";
import { FRESH_FOR_A_DAY, HOT, NFT, startTestApi, VAULT } from "../../support/api.ts";
import {
  isProgress,
  type LiveChange,
  openStream,
  readAllPages,
  readChangesPage,
  type StreamEvent,
} from "../../support/changes.ts";
import { test } from "../../support/test.ts";
import { askWallet, type History } from "../../support/wallets.ts";

const CHAINS = [1, 137];

const changesOf = (events: readonly StreamEvent[]): LiveChange[] =>
  events.flatMap((each) => (each.event === "change" ? [each.data] : []));

const hasAll = ({ event, data }: StreamEvent): boolean =>
  event === "progress" && CHAINS.every((chainId) => data.blocks[chainId] !== undefined);

test("pages: the whole log once, in the order of each network", async ({ samples, databaseUrl: _, database }) => {
  const all = (await readAllPages(samples, "?finality=latest&limit=50")).flatMap(({ changes }) => changes);
  const { rows } = await database.query(
    `select chain_id::int as "chainId", transaction_hash as "transactionHash", log_index as "logIndex", ordinal
     from registry.delegation_change order by chain_id, block_number, log_index, ordinal`,
  );
  expect(rows.length).toBeGreaterThan(100);
  expect(all.toSorted((a, b) => a.chainId - b.chainId)).toMatchObject(rows);

  const pages = await readAllPages(samples, "?finality=latest&limit=50");
  expect(pages.every(({ changes }) => changes.length <= 50)).toBe(true);
  expect(pages.at(-1)).toMatchObject({ changes: [], undo: [], unanswered: [], next: expect.any(String) });
  expect(Object.keys(pages.at(-1)?.blocks ?? {})).toEqual(["1", "137"]);
});

test("the fields of a change are those of the history", async ({ samples }) => {
  const { changes } = await askWallet<History>(samples, `${VAULT}/history?limit=1000`);
  const pages = await readAllPages(samples, `?finality=latest&wallet=${VAULT}`);
  const found = pages.flatMap(({ changes }) => changes);
  const keyOf = ({
    chainId,
    blockNumber,
    logIndex,
    ordinal,
  }: Pick<LiveChange, "chainId" | "blockNumber" | "logIndex" | "ordinal">) =>
    [chainId, blockNumber, logIndex, ordinal].join();
  const expected = new Map(changes.map(({ direction: _, ...change }) => [keyOf(change), { ...change, final: false }]));
  expect(new Map(found.map((change) => [keyOf(change), change]))).toEqual(expected);
});

test("filters: pages and streams list the same changes", async ({ samples }) => {
  const everything = (await readAllPages(samples, "?finality=latest&limit=1000")).flatMap(({ changes }) => changes);
  const filters: [string, (change: LiveChange) => boolean][] = [
    ["chainId=137", ({ chainId }) => chainId === 137],
    ["registry=v1", ({ registry }) => registry === "v1"],
    [`wallet=${HOT}`, ({ vault, delegate }) => vault === HOT || delegate === HOT],
    [`vault=${VAULT.toLowerCase()}`, ({ vault }) => vault === VAULT],
    [`delegate=${HOT}`, ({ delegate }) => delegate === HOT],
    [`contract=${NFT}`, ({ contract }) => contract === NFT],
    ["type=TOKEN", ({ type }) => type === "TOKEN"],
    [
      "type=ALL&registry=v2&chainId=1",
      ({ type, registry, chainId }) => type === "ALL" && registry === "v2" && chainId === 1,
    ],
    [
      `vault=${VAULT}&delegate=${HOT}&type=ALL`,
      ({ vault, delegate, type }) => vault === VAULT && delegate === HOT && type === "ALL",
    ],
  ];
  for (const [filter, isListed] of filters) {
    const listed = everything.filter(isListed);
    expect(listed.length, filter).toBeGreaterThan(0);
    const query = `?finality=latest&${filter}&limit=3`;
    const pages = await readAllPages(samples, query);
    expect(
      pages.flatMap(({ changes }) => changes),
      filter,
    ).toEqual(listed);
    const chainIds = new Set(listed.map(({ chainId }) => chainId));
    const stream = await openStream(samples, `${query}&cursor=start`);
    const events = await stream.readUntil(
      ({ event, data }) => event === "progress" && [...chainIds].every((chainId) => data.blocks[chainId]),
    );
    stream.close();
    expect(
      changesOf(events).toSorted((a, b) => a.chainId - b.chainId),
      filter,
    ).toEqual(listed);
  }
});

test("a stream begins now, or at any event of another one, at any process", async ({ samples }) => {
  const now = await openStream(samples, "?finality=latest");
  expect(Object.fromEntries(now.headers)).toMatchObject({
    "content-type": "text/event-stream",
    "cache-control": "no-store, no-transform",
    "x-accel-buffering": "no",
    "ratelimit-policy": expect.any(String),
  });
  expect((await now.readUntil(hasAll)).every(isProgress)).toBe(true);

  const whole = await (await openStream(samples, "?finality=latest&cursor=start")).readUntil(hasAll);
  for (const place of [0, 1, Math.floor(whole.length / 2), whole.length - 3]) {
    const { id } = whole[place] ?? expect.fail("The stream is short.");
    const rest = await openStream(samples, "?finality=latest&cursor=start", id);
    const events = changesOf(await rest.readUntil(hasAll));
    rest.close();
    expect(events).toEqual(changesOf(whole.slice(place + 1)));
    // The same as a page.
    const [page] = await readAllPages(samples, "?finality=latest&limit=1000", id);
    expect(page?.changes.toSorted((a, b) => a.chainId - b.chainId)).toEqual(
      events.toSorted((a, b) => a.chainId - b.chainId),
    );
  }
});

test("a page without a cursor begins now", async ({ samples }) => {
  const page = await readChangesPage(samples, "?finality=latest&chainId=1");
  expect(page).toMatchObject({ undo: [], changes: [], blocks: { 1: { final: false } } });
  expect(await readChangesPage(samples, `?finality=latest&chainId=1&cursor=${page.next}`)).toEqual(page);
});

test("a HEAD request opens no stream", async ({ samples }) => {
  const headers = { Accept: "text/event-stream" };
  const response = await samples.get("/changes", { method: "HEAD", headers });
  expect(response.status).toBe(200);
  expect(response.headers.get("Content-Type")).toBe("text/event-stream");
  expect(await response.text()).toBe("");
});

test("streams end when the API stops, with a hint to connect again", async ({ databaseUrl }) => {
  const stopping = await startTestApi({ databaseUrl, env: FRESH_FOR_A_DAY });
  const stream = await stopping.get("/changes?finality=latest", { headers: { Accept: "text/event-stream" } });
  const text = stream.text();
  await stopping.stop();
  expect(await text).toMatch(/\n\nretry: \d{4}\n\n$/);
});
