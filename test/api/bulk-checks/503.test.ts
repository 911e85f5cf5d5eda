import { expect } from "vitest";
import { ALL, askChecks } from "../../support/bulk-checks.ts";
import { hideLogColumn, startChangedSamples } from "../../support/index-copy.ts";
import { test } from "../../support/test.ts";

// A network that cannot be answered for fails its own checks, in a 200.

const NOT_INDEXED = { problem: { status: 503, type: "/docs#problem-not-indexed" } };

test("a chain that is not indexed yet fails its own checks, and has no block", async () => {
  const { api } = await startChangedSamples((database, schema) =>
    database.query(`delete from ${schema}.indexed_block where chain_id = 137`),
  );
  const { answers, blocks } = await askChecks(api, { checks: [ALL, { ...ALL, chainId: 137 }, ALL] });
  expect(answers).toMatchObject([{ result: true }, NOT_INDEXED, { result: true }]);
  expect(Object.keys(blocks)).toEqual(["1"]);
});

test("a block that is not indexed yet fails its checks, and is not named", async ({ samples }) => {
  const { answers, blocks } = await askChecks(samples, { checks: [ALL, ALL], block: 10_000 });
  expect(answers).toMatchObject([NOT_INDEXED, NOT_INDEXED]);
  expect(blocks).toEqual({});
});

test("an older index, whose log lacks a column, fails checks of a past block", async () => {
  const { api } = await startChangedSamples((database) => hideLogColumn(database, "made_block"));
  const { answers } = await askChecks(api, { checks: [ALL], block: 1 });
  expect(answers).toMatchObject([{ problem: { detail: expect.stringContaining("older version") } }]);
  expect(answers).toMatchObject([NOT_INDEXED]);
  expect((await askChecks(api, { checks: [ALL] })).answers).toEqual([{ result: true }]);
});
