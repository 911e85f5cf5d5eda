import { afterAll, beforeAll, expect, test } from "vitest";
import { type Api, FRESH_FOR_A_DAY, launchApi } from "../support/api.ts";
import { createPopularDatabase } from "../support/million.ts";

// Lists of over 1,000 delegations are streamed. test/slow/million.test.ts shows what they cost.

/** More than the network takes of a list before anybody reads it. */
const COUNT = 40_000;

let popular: Awaited<ReturnType<typeof createPopularDatabase>>;
let api: Api;
beforeAll(async () => {
  popular = await createPopularDatabase(COUNT);
  api = await launchApi({ databaseUrl: popular.databaseUrl, env: FRESH_FOR_A_DAY });
});
afterAll(async () => {
  await api?.stop();
  await popular?.client.end();
});

const tokenIds = (rows: unknown) => (rows as { tokenId: number }[]).map(({ tokenId }) => tokenId);
const firstIds = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

test("a long list is sent whole, oldest first, and its pages make it up", async () => {
  const response = await api.get(`/registry/v2/${popular.popular}`);
  expect(response.status).toBe(200);
  expect(response.headers.get("X-Indexed-Block")).toMatch(/^\d+$/);
  expect(tokenIds(await response.json())).toEqual(firstIds(COUNT));

  const ids: number[] = [];
  let path: string | undefined = `/registry/v2/${popular.popular}?limit=1000`;
  for (let pages = 0; path && pages < 5; pages++) {
    const page: Response = await api.get(path);
    ids.push(...tokenIds(await page.json()));
    path = /<(.*)>; rel="next"/.exec(page.headers.get("Link") ?? "")?.[1];
  }
  expect(ids).toEqual(firstIds(5_000));
});

test("a list that cannot be read to its end breaks off: it is no valid JSON, and its connection fails", async () => {
  const response = await api.get(`/registry/v2/${popular.popular}?details=true`);
  const reader = response.body?.getReader();
  if (!reader) throw new Error("The list has no body.");
  let text = Buffer.from((await reader.read()).value ?? []).toString();
  const { rows } = await popular.client.query(
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'api' and datname = current_database() and query like 'fetch%'",
  );
  expect(rows.length).toBeGreaterThan(0);

  const readOn = async () => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += Buffer.from(value).toString();
    }
  };
  await expect(readOn()).rejects.toThrow();
  expect(() => JSON.parse(text)).toThrow();
  expect(text).not.toMatch(/error/i);
  expect((await api.get(`/registry/v2/${popular.popular}?limit=1`)).status).toBe(200);
});
