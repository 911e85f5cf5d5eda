import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ApiProcess as Api, FRESH_FOR_A_DAY, launchApiProcess } from "../../support/api.ts";
import { observeBystander } from "../../support/bystander.ts";
import { createPopularDatabase } from "../../support/million.ts";

// Many clients request one wallet to which many others have delegated.

const FANS = 200_000;
/** More long lists than the API sends concurrently. */
const READERS = 6;
const PAGERS = 6;
const CHECKERS = 24;
/** Occurs once in each delegation of the list. */
const NAME = '"from"';
const RETRY_MS = 500;
const PAUSE_MS = 50;

let popular: Awaited<ReturnType<typeof createPopularDatabase>>;
let api: Api;
beforeAll(async () => {
  popular = await createPopularDatabase(FANS);
  api = await launchApiProcess({ databaseUrl: popular.databaseUrl, env: { ...FRESH_FOR_A_DAY, LOG_LEVEL: "warn" } });
}, 300_000);
afterAll(async () => {
  await api?.stop();
  await popular?.client.end();
});

/** Counts the complete list as it arrives, and retries after a 503. */
const readAll = async (): Promise<{ found: number; refused: number }> => {
  for (let refused = 0; ; refused++) {
    const response = await api.get(`/registry/v2/${popular.popular}`);
    if (response.status === 503) {
      expect(response.headers.get("Retry-After")).toMatch(/^\d+$/);
      await response.text();
      await sleep(RETRY_MS);
      continue;
    }
    expect(response.status).toBe(200);
    let found = 0;
    let rest = "";
    for await (const chunk of response.body ?? []) {
      const text = rest + Buffer.from(chunk).toString("latin1");
      found += text.split(NAME).length - 1;
      // A name may span two chunks.
      rest = text.slice(1 - NAME.length);
    }
    return { found, refused };
  }
};

test(`${READERS + PAGERS + CHECKERS} clients of a wallet with ${FANS} delegations use less than 200 MB, and other clients are served`, async () => {
  const path = `/registry/v2/${popular.popular}`;
  for (let round = 0; round < 3; round++) await (await api.get(`${path}?limit=1000`)).text();

  let isOver = false;
  const repeat = async (ask: () => Promise<void>) => {
    while (!isOver) {
      await ask();
      await sleep(PAUSE_MS);
    }
  };
  const statuses = new Map<number, number>();
  const note = (status: number) => statuses.set(status, (statuses.get(status) ?? 0) + 1);
  const askPage = async () => {
    const response = await api.get(`${path}?limit=1000`);
    note(response.status);
    const page = await response.json();
    if (response.ok) expect(page).toHaveLength(1000);
  };
  const askCheck = async () => {
    const response = await api.get(`/registry/v2/check/all?to=${popular.popular}&from=${popular.popular}`);
    note(response.status);
    expect(["false", expect.stringContaining("overloaded")]).toContainEqual(await response.text());
  };
  const others = [
    ...Array.from({ length: PAGERS }, () => askPage),
    ...Array.from({ length: CHECKERS }, () => askCheck),
  ];
  let lists: Awaited<ReturnType<typeof readAll>>[] = [];
  const { meanwhile, grownMb } = await observeBystander(api, async () => {
    const asking = Promise.all(others.map(repeat));
    lists = await Promise.all(Array.from({ length: READERS }, readAll)).finally(() => {
      isOver = true;
    });
    await asking;
  });
  console.log(
    `${lists.reduce((sum, { refused }) => sum + refused, 0)} lists had to wait for a slot. ` +
      `Pages and checks: ${[...statuses].map(([status, count]) => `${count} × ${status}`).join(", ")}.`,
  );
  expect(lists.map(({ found }) => found)).toEqual(lists.map(() => FANS));
  expect(grownMb).toBeLessThan(200);
  expect(meanwhile.slowest).toBeLessThan(5_000);
  expect([...statuses.keys()].filter((status) => status !== 200 && status !== 503)).toEqual([]);
}, 280_000);
