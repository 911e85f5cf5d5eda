import { expect, test } from "vitest";
import { databaseUnavailable, overloaded } from "../../api/database/problems.ts";
import { Problem } from "../../api/problem.ts";
import { askPerShard } from "../../api/shards/ask-per-shard.ts";

// Chains 1 and 2 are in one shard, chain 3 in another; chain 4 is in none.

const notIndexed = new Problem("not-indexed", "Chain 4 is not indexed yet.");

const askChains = (askShard: (schema: string) => Promise<void>) =>
  askPerShard({
    parts: [1, 2, 3, 4],
    locate: (chainId) => {
      if (chainId === 4) throw notIndexed;
      return [chainId === 3 ? "b" : "a", chainId];
    },
    ask: async (schema, chainIds) => {
      await askShard(schema);
      return chainIds.map((chainId) => `${schema}${chainId}`);
    },
    read: (answers, _, index) => answers[index],
  });

test("askPerShard() asks each shard once, and answers each part with its own answer", async () => {
  const asked: string[] = [];
  const answers = await askChains(async (schema) => {
    asked.push(schema);
  });
  expect(asked).toEqual(["a", "b"]);
  expect(Object.fromEntries(answers)).toEqual({ 1: "a1", 2: "a2", 3: "b3", 4: notIndexed });
});

test("askPerShard() fails only the parts of a shard that is too slow", async () => {
  const tooSlow = overloaded("The answer took too long to find.");
  const answers = await askChains(async (schema) => {
    if (schema === "a") throw tooSlow;
  });
  expect(Object.fromEntries(answers)).toEqual({ 1: tooSlow, 2: tooSlow, 3: "b3", 4: notIndexed });
});

test("askPerShard() fails as a whole if every shard is too slow", async () => {
  const tooSlow = overloaded("The answer took too long to find.");
  await expect(askChains(() => Promise.reject(tooSlow))).rejects.toBe(tooSlow);
});

test("askPerShard() fails each part if every shard is being built anew", async () => {
  const answers = await askChains(() => Promise.reject(notIndexed));
  expect(Object.fromEntries(answers)).toEqual({ 1: notIndexed, 2: notIndexed, 3: notIndexed, 4: notIndexed });
});

test.for([
  ["the database is out of reach", databaseUnavailable()],
  ["an error is unexpected", new TypeError("cannot read")],
] as const)("askPerShard() fails as a whole if %s", async ([, error]) => {
  await expect(
    askChains(async (schema) => {
      if (schema === "b") throw error;
    }),
  ).rejects.toBe(error);
});
