import { expect } from "vitest";
import { CHECK, VAULT } from "../support/api.ts";
import { readServedSchema } from "../support/index-copy.ts";
import { parseMetrics, readValue } from "../support/metrics.ts";
import { test as base } from "../support/test.ts";

// A quiet chain makes no empty blocks. Its old newest block is fresh while the indexer sees that it is the newest.

const HOUR = 3600;
const QUIET = 1;
const STEADY = 137;

type ChainStatus = { chainId: number; ready: boolean; reason: string | null; lagSeconds: number };

let now = 0;

const test = base
  // Only the tests let the age of a state pass.
  .extend("now", () => () => now)
  .extend("env", { QUIET_CHAINS: String(QUIET), MAX_INDEX_LAG_SECONDS: "" })
  /** Stores what an indexer saw some seconds ago, by default the indexed block. The next request reads it. */
  .extend("see", async ({ database }) => {
    await database.query("set session_replication_role = replica");
    const schema = await readServedSchema(database);
    await database.query(`update ${schema}.indexed_block set timestamp = floor(extract(epoch from now())) - ${HOUR}`);
    return async ({ secondsAgo = 0, blocks = 0, timestamp = 0 }) => {
      now += 1_000;
      await database.query(
        `update indexer.chain set seen_at = now() - $1 * interval '1 second',
           newest_number = block.number + $2, newest_timestamp = block.timestamp + $3
         from ${schema}.indexed_block block where block.chain_id = chain.chain_id`,
        [secondsAgo, blocks, timestamp],
      );
    };
  })
  /** Reads a chain's state, after which the API knows what the indexer saw. */
  .extend("readState", ({ api }) => async (chainId: number) => {
    const { chains } = (await (await api.get("/status")).json()) as { chains: ChainStatus[] };
    return chains.find((chain) => chain.chainId === chainId);
  })
  .extend("ask", ({ api, readState }) => async (chainId: number) => {
    await readState(chainId);
    const responses = await Promise.all(
      [`${CHECK}&chainId=${chainId}`, `/registry/v2/${VAULT}?chainId=${chainId}`].map((path) => api.get(path)),
    );
    const bodies = await Promise.all(responses.map((response) => response.text()));
    const [status, ...others] = new Set(responses.map((response) => response.status));
    expect(others, "a check and a list have one status").toEqual([]);
    return { status, body: bodies[0] ?? "" };
  });

test("a quiet chain with an old newest block answers while the indexer sees that it is the newest", async ({
  api,
  see,
  readState,
  ask,
}) => {
  await see({ secondsAgo: 500 });
  expect(await ask(QUIET)).toMatchObject({ status: 200 });

  const state = await readState(QUIET);
  expect(state).toMatchObject({ ready: true, reason: null });
  expect(state?.lagSeconds).toBeGreaterThanOrEqual(500);
  expect(state?.lagSeconds).toBeLessThan(600);
  const metrics = parseMetrics(await api.metrics());
  expect(readValue(metrics, "chain_answered", { chain_id: String(QUIET) })).toBe(1);
  expect(readValue(metrics, "chain_lag_seconds", { chain_id: String(QUIET) })).toBeLessThan(600);
});

test("a steady chain with an old newest block returns 503, although the indexer sees that it is the newest", async ({
  see,
  readState,
  ask,
}) => {
  await see({});
  const { status, body } = await ask(STEADY);
  expect(status).toBe(503);
  expect(JSON.parse(body).detail).toMatch(/Polygon\) is indexed up to block \d+, which is \d{4} s old; the limit/);
  expect(await readState(STEADY)).toMatchObject({ ready: false, lagSeconds: expect.toSatisfy((lag) => lag >= HOUR) });
});

test.for([
  ["was last seen too long ago", { secondsAgo: 700 }],
  ["has a newer block", { blocks: 1, timestamp: 1 }],
  ["has another block of that number", { timestamp: 1 }],
  ["is behind the index on the endpoint that was asked", { blocks: -1 }],
] as const)("a quiet chain that %s returns 503", async ([, seen], { see, ask }) => {
  await see(seen);
  const { status, body } = await ask(QUIET);
  expect(status).toBe(503);
  expect(JSON.parse(body)).toMatchObject({ type: "/docs#problem-stale-index" });
  expect(JSON.parse(body).detail).toMatch(/is \d{4} s old; .* The chain's newest block was \d+ \d+ s ago\.$/);

  await see({});
  expect(await ask(QUIET)).toMatchObject({ status: 200 });
});

test("a quiet chain answers for a time up to when the indexer saw its newest block, less the greatest lag", async ({
  api,
  see,
  readState,
}) => {
  await see({ secondsAgo: 10 });
  await readState(QUIET);
  const ask = async (chainId: number, secondsAgo: number) => {
    const time = Math.floor(Date.now() / 1000) - secondsAgo;
    return (await api.get(`/wallets/${VAULT}/vaults?chainId=${chainId}&timestamp=${time}`)).status;
  };
  expect(await ask(QUIET, HOUR / 2)).toBe(200);
  expect(await ask(QUIET, 5)).toBe(503);
  expect(await ask(STEADY, HOUR / 2)).toBe(503);
});
