import { expect } from "vitest";
import { generateKey } from "../../../api/keys/api-key.ts";
import { type Api, CHECK } from "../../support/api.ts";
import { addKey } from "../../support/keys.ts";
import { findSamples, parseMetrics } from "../../support/metrics.ts";
import { test as base } from "../../support/test.ts";

// A flood of well-formed keys that nobody has. test/slow/alone/flood.test.ts measures what it costs others.

const LIMIT = 25;
/** Lookups in flight when the limit is reached. */
const IN_FLIGHT = 4;

/** The clock of limits and cached keys. */
const clock = { now: 0 };
const test = base
  .extend("env", { RATE_LIMIT_REQUESTS: String(LIMIT), TRUST_PROXY: "127.0.0.1" })
  .extend("now", () => () => clock.now);

const ask = async (api: Api, key: string, address: string) => {
  const response = await api.get(CHECK, { headers: { "X-API-KEY": key, "X-Forwarded-For": address } });
  await response.text();
  return response.status;
};

const countLookups = async (api: Api) =>
  findSamples(parseMetrics(await api.metrics()), "batch_questions_sum", { kind: "keys" })[0]?.value ?? 0;

test("500 made-up keys from one address cause 29 lookups at most: the others are 429 without one", async ({ api }) => {
  const before = await countLookups(api);
  const statuses = await Promise.all(Array.from({ length: 500 }, () => ask(api, generateKey(), "198.51.100.1")));
  expect(statuses.filter((status) => status === 401)).toHaveLength(LIMIT);
  expect(statuses.filter((status) => status === 429)).toHaveLength(500 - LIMIT);
  const made = (await countLookups(api)) - before;
  expect(made).toBeGreaterThanOrEqual(LIMIT);
  expect(made).toBeLessThanOrEqual(LIMIT + IN_FLIGHT);
});

test("a known key works beside them: from another address at once, from the same one if it was used before", async ({
  api,
  database,
}) => {
  const { key } = await addKey(database);
  const used = (await addKey(database)).key;
  expect(await ask(api, used, "198.51.100.2")).toBe(200);
  const flood = Promise.all(Array.from({ length: 200 }, () => ask(api, generateKey(), "198.51.100.2")));
  expect(await ask(api, key, "198.51.100.3")).toBe(200);
  await flood;
  expect(await ask(api, used, "198.51.100.2")).toBe(200);
});

test("a key in use continues to work beside them after a minute, when it is looked up again", async ({
  api,
  database,
}) => {
  const { key } = await addKey(database);
  const address = "198.51.100.4";
  expect(await ask(api, key, address)).toBe(200);
  await Promise.all(Array.from({ length: 50 }, () => ask(api, generateKey(), address)));
  clock.now += 61_000;
  const flood = Promise.all(Array.from({ length: 300 }, () => ask(api, generateKey(), address)));
  expect(await ask(api, key, address)).toBe(200);
  await flood;
});
