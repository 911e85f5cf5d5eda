import { expect, test } from "vitest";
import { ShardAdvisor } from "../../indexer/shard-advisor.ts";

const STEP_MS = 2_000;
const BLOCKS_PER_STEP = 8;

type Lags = Record<number, number>;

/** Runs chains with a block every 250 ms, each some blocks behind, and returns what the advisor says. */
const createAdvisor = () => {
  const messages: string[] = [];
  let now = 0;
  let newest = 1_000;
  const advisor = new ShardAdvisor(
    (message) => messages.push(message),
    () => now,
  );
  return {
    messages,
    run: (seconds: number, lags: Lags) => {
      for (const until = now + seconds * 1000; now < until; now += STEP_MS, newest += BLOCKS_PER_STEP) {
        advisor.check(
          Object.entries(lags).map(([chainId, lag]) => ({
            chainId: Number(chainId),
            start: 0,
            reached: newest - lag,
            newest,
          })),
        );
      }
    },
  };
};

test("ShardAdvisor suggests shards once when two chains are 15 s late for over a minute", () => {
  const { messages, run } = createAdvisor();
  run(60, { 1: 60, 10: 60, 8453: 4 });
  expect(messages).toEqual([]);
  run(600, { 1: 60, 10: 60, 8453: 4 });
  expect(messages).toEqual([expect.stringMatching(/^Ethereum, OP Mainnet: .* shards with SHARD and CHAINS/)]);
});

test("ShardAdvisor repeats its suggestion after an hour", () => {
  const { messages, run } = createAdvisor();
  run(2 * 3_600, { 1: 60, 10: 60 });
  expect(messages).toHaveLength(2);
});

test.for<[what: string, lags: Lags]>([
  ["all chains are 8 s late", { 1: 32, 10: 32, 8453: 32 }],
  ["one chain of several is late", { 1: 400, 10: 4, 8453: 4 }],
  ["the only chain is late", { 1: 400 }],
])("ShardAdvisor is silent when %s", ([, lags]) => {
  const { messages, run } = createAdvisor();
  run(600, lags);
  expect(messages).toEqual([]);
});

test("ShardAdvisor is silent when chains catch up within a minute, again and again", () => {
  const { messages, run } = createAdvisor();
  for (let round = 0; round < 10; round++) {
    run(50, { 1: 60, 10: 60 });
    run(20, { 1: 2, 10: 2 });
  }
  expect(messages).toEqual([]);
});
