import { setTimeout as sleep } from "node:timers/promises";
import { type Hex, zeroHash } from "viem";
import { expect, test } from "vitest";
import { encodeV1, encodeV2 } from "../../../local/calls.ts";
import { networks } from "../../../registry/networks.ts";
import { type Api, COIN, NFT, startTestApi } from "../../support/api.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { startIndexerProcess } from "../../support/indexer.ts";
import {
  connectClient,
  createChain,
  createDatabase,
  ReorgChain,
  waitUntil,
  waitUntilIndexed,
} from "../../support/setup.ts";

const CHAIN_ID = 8453;
const CLIENTS = 2;

type Asked = { path: string; status: number; body: string; block: number; startedAt: number; endedAt: number };

/**
 * Creates a chain on which a block's number determines every answer: in each block, a vault sets an amount to the
 * block's number, and turns a v1 delegation on if it is even or off if it is odd.
 */
const createNumberedChain = async () => {
  const chain = new ReorgChain(await createChain(CHAIN_ID));
  const { client, accounts } = chain.local;
  const { v1, v2 } = networks.get(CHAIN_ID) ?? {};
  const [vault, hot] = accounts;
  if (!v1 || !v2 || !vault || !hot) throw new Error("The chain lacks registries or wallets.");
  const write = (to: typeof vault, data: Hex) => ({ from: vault, to, data, operations: 1 });
  const mine = async () => {
    const number = (await client.getBlockNumber()) + 1n;
    await chain.mine([
      write(v2.address, encodeV2("delegateERC20", [hot, COIN, zeroHash, number])),
      write(v2.address, encodeV2("delegateERC721", [hot, NFT, number % 3n, zeroHash, number % 2n === 1n])),
      write(v1.address, encodeV1("delegateForAll", [hot, number % 2n === 0n])),
    ]);
  };

  const wallets = `delegate=${hot}&vault=${vault}&chainId=${CHAIN_ID}`;
  const isEven = (block: number) => String(block % 2 === 0);
  /** Paths with the registries' answer at a block. */
  const truths: [string, (block: number) => string][] = [
    [`/registry/v2/check/erc20?${wallets}&contract=${COIN}`, String],
    [`/registry/v1/check/all?${wallets}`, isEven],
    [`/registry/v1/check/contract?${wallets}&contract=${NFT}`, isEven],
    [`/registry/v2/check/all?${wallets}`, () => "false"],
    // A token's state depends on the newest block that changed it, one of the last three.
    ...[0, 1, 2].map((tokenId): [string, (block: number) => string] => [
      `/registry/v2/check/erc721?${wallets}&contract=${NFT}&tokenId=${tokenId}`,
      (block) => {
        let newest = block;
        while (newest % 3 !== tokenId) newest--;
        return String(newest % 2 === 1);
      },
    ]),
  ];
  const amountIn = (body: string) =>
    JSON.parse(body)
      .filter(({ tokenStandard }: { tokenStandard: string }) => tokenStandard === "ERC20")
      .map(({ amount }: { amount: string }) => amount)
      .join();
  const lists: [string, (body: string) => string, (block: number) => string][] = [
    [`/registry/v2/${vault}?chainId=${CHAIN_ID}&details=true&numbers=string`, amountIn, String],
    [`/registry/v2/${hot}?chainId=${CHAIN_ID}&details=true&numbers=string`, amountIn, String],
    [`/registry/v1/${vault}?chainId=${CHAIN_ID}`, (body) => String(JSON.parse(body).length === 1), isEven],
  ];
  const questions = new Map([
    ...truths.map(([path, truth]) => [path, (block: number, body: string) => body === truth(block)] as const),
    ...lists.map(([path, read, truth]) => [path, (b: number, body: string) => read(body) === truth(b)] as const),
  ]);
  return { local: chain.local, mineEmpty: () => chain.mine(), mine, questions };
};

test("a restart resumes the index, and a re-index fails no request, never answers from an older block, and is always right", {
  timeout: 600_000,
}, async () => {
  const chain = await createNumberedChain();
  const chains = [chain.local];
  // The indexes differ in their start blocks, before which there are no events.
  for (let block = 0; block < 5; block++) await chain.mineEmpty();
  for (let block = 0; block < 40; block++) await chain.mine();
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  const index = (startBlock: number) =>
    startIndexerProcess({ databaseUrl, chains, env: { [`START_BLOCK_${CHAIN_ID}`]: String(startBlock) } });

  const first = await index(0);
  await waitUntilIndexed(database, chain.local);
  const original = await readServedSchema(database);
  await first.stop();
  await chain.mine();
  let running = await index(0);
  await waitUntilIndexed(database, chain.local);
  expect(await readServedSchema(database)).toBe(original);
  expect(running.output()).toContain("Detected crash recovery");
  expect(running.output()).not.toContain("Created database tables");

  // A second indexer of the same index is refused.
  const second = await index(0);
  expect(await second.exited).toEqual({ code: 1, signal: null });
  expect(second.output()).toContain("Another indexer is running the same index");

  const apis = [await startTestApi({ databaseUrl }), await startTestApi({ databaseUrl })];
  const asked: Asked[] = [];
  const ask = async (api: Api, path: string) => {
    const startedAt = performance.now();
    const response = await api.get(path);
    const body = await response.text();
    const block = Number(response.headers.get("X-Indexed-Block"));
    asked.push({ path, status: response.status, body, block, startedAt, endedAt: performance.now() });
  };
  let isOver = false;
  const keepGoing = async (run: () => Promise<unknown>, pauseMs: number) => {
    while (!isOver) {
      await run();
      await sleep(pauseMs);
    }
  };
  const clients = apis.flatMap((api) =>
    Array.from({ length: CLIENTS }, () =>
      keepGoing(async () => {
        for (const path of chain.questions.keys()) await ask(api, path);
      }, 30),
    ),
  );
  // Readers of the views and of the schema analytics record each block and its amount.
  const seen = await Promise.all(
    [
      `select number::int as block, (select amount from registry.delegation_v2 where type = 'ERC20')
       from registry.indexed_block where chain_id = ${CHAIN_ID}`,
      `select analytics.known_block(${CHAIN_ID})::int as block,
         (select amount from analytics.delegations where token_standard = 'ERC20')`,
    ].map(async (text) => {
      const [reader, blocks] = [await connectClient(databaseUrl), [] as { block: number; amount: string }[]];
      clients.push(keepGoing(async () => blocks.push((await reader.query(text)).rows[0]), 5));
      return blocks;
    }),
  );
  const mining = keepGoing(chain.mine, 300);

  const reindex = async (startBlock: number) => {
    const old = await readServedSchema(database);
    const next = await index(startBlock);
    // The old indexer ends when the new one has taken over.
    expect(await running.exited).toEqual({ code: 0, signal: null });
    expect(running.output()).toContain("is superseded");
    expect(await readServedSchema(database)).not.toBe(old);
    const dropped = async () => (await database.query("select to_regnamespace($1) as schema", [old])).rows[0].schema;
    await waitUntil("the old index is dropped", dropped, 60, (schema) => schema === null);
    await waitUntil("the indexer logs the drop", () => next.output().includes(`Dropped ${old}`), 10);
    running = next;
  };
  await reindex(1);
  const betweenThem = asked.length;
  // Views with other columns cannot be replaced in place.
  const schema = await readServedSchema(database);
  for (const view of ["delegation_v1", "delegation_v2"]) {
    await database.query(`create or replace view registry.${view} as select *, 1 as more from ${schema}.${view}`);
  }
  await reindex(2);
  const { rows: columns } = await database.query(
    "select from information_schema.columns where table_schema = 'registry' and column_name = 'more'",
  );
  expect(columns).toEqual([]);
  const soFar = asked.length;
  await waitUntil("clients have asked the new index", () => asked.length > soFar + 200);
  isOver = true;
  await Promise.all([...clients, mining]);

  console.log(`${asked.length} requests, ${betweenThem} of them before the first re-index was complete.`);
  expect(betweenThem).toBeGreaterThan(500);
  expect(asked.length - betweenThem).toBeGreaterThan(500);
  expect(asked.filter(({ status }) => status !== 200)).toEqual([]);
  expect(asked.filter(({ path, block, body }) => !chain.questions.get(path)?.(block, body))).toEqual([]);
  expect(findRegressions(asked)).toEqual([]);
  // Clients saw many blocks, not a few jumps.
  expect(new Set(asked.map(({ block }) => block)).size).toBeGreaterThan(30);
  for (const blocks of seen) {
    expect(blocks.length).toBeGreaterThan(100);
    expect(blocks.filter(({ block, amount }) => amount !== String(block))).toEqual([]);
    expect(blocks).toEqual(blocks.toSorted((a, b) => a.block - b.block));
  }
});

/** Finds answers from a block older than one that any process had answered from before the request. */
const findRegressions = (asked: readonly Asked[]): Asked[] => {
  const ended = asked.toSorted((a, b) => a.endedAt - b.endedAt).values();
  let next = ended.next();
  let newest = 0;
  return asked
    .toSorted((a, b) => a.startedAt - b.startedAt)
    .filter(({ startedAt, block }) => {
      for (; !next.done && next.value.endedAt < startedAt; next = ended.next()) {
        newest = Math.max(newest, next.value.block);
      }
      return block < newest;
    });
};
