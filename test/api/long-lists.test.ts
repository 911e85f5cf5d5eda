import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import { prefixOf } from "../../api/keys/api-key.ts";
import { addKey } from "../support/keys.ts";
import { popularTest } from "../support/service-test.ts";
import { waitUntil } from "../support/setup.ts";

// Lists of over 1,000 delegations are streamed. test/slow/long/million.test.ts measures their memory.

/** More than socket buffers hold. */
const COUNT = 40_000;

const test = popularTest
  .extend("fans", COUNT)
  // Tests act as a trusted proxy, so that each can use several client addresses.
  .extend("env", { TRUST_PROXY: "127.0.0.1" })
  .extend("path", { scope: "file" }, ({ popular }) => `/registry/v2/${popular}`)
  /** Opens a long list as a client, and reads nothing of it. */
  .extend("openList", { scope: "file" }, ({ api, path }) => async (headers: Record<string, string>) => {
    const response = await api.get(path, { headers });
    if (response.status !== 200) await response.body?.cancel();
    return { status: response.status, cancel: () => response.body?.cancel() };
  });

const tokenIds = (rows: unknown) => (rows as { tokenId: number }[]).map(({ tokenId }) => tokenId);
const firstIds = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

test("a long list is sent completely, oldest first, and its pages add up to it", async ({ api, path }) => {
  const response = await api.get(path);
  expect(response.status).toBe(200);
  expect(response.headers.get("X-Indexed-Block")).toMatch(/^\d+$/);
  expect(tokenIds(await response.json())).toEqual(firstIds(COUNT));

  const ids: number[] = [];
  let next: string | undefined = `${path}?limit=1000`;
  for (let pages = 0; next && pages < 5; pages++) {
    const page: Response = await api.get(next);
    ids.push(...tokenIds(await page.json()));
    next = /<(.*)>; rel="next"/.exec(page.headers.get("Link") ?? "")?.[1];
  }
  expect(ids).toEqual(firstIds(5_000));
});

test("a long list that fails is truncated to invalid JSON, and its connection breaks", async ({
  api,
  path,
  database,
}) => {
  const response = await api.get(`${path}?details=true`);
  const reader = response.body?.getReader();
  if (!reader) throw new Error("The list has no body.");
  let text = Buffer.from((await reader.read()).value ?? []).toString();
  const { rows } = await database.query(
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
  expect((await api.get(`${path}?limit=1`)).status).toBe(200);
});

test("a long list that nobody reads holds no snapshot and locks no table", async ({ openList, database }) => {
  const list = await openList({ "X-Forwarded-For": "198.51.100.30" });
  expect(list.status).toBe(200);
  const readHeld = async () =>
    (
      await database.query(
        `select state, backend_xid, backend_xmin, (select count(*)::int from pg_locks where pg_locks.pid = activity.pid and relation is not null) as locks
         from pg_stat_activity activity where application_name = 'api' and datname = current_database() and query like 'fetch%'`,
      )
    ).rows;
  const held = await waitUntil("the reader is full", readHeld, 20, ([row]) => row?.state === "idle in transaction");
  expect(held).toEqual([{ state: "idle in transaction", backend_xid: null, backend_xmin: null, locks: 0 }]);
  await list.cancel();
});

const isPending = async (promise: Promise<unknown>) =>
  (await Promise.race([promise.then(() => "settled"), sleep(300, "pending")])) === "pending";

test("a client reads one long list at a time, with a key two; the next one waits, and other clients' lists do not", async ({
  openList,
  database,
}) => {
  const { key } = await addKey(database);
  const client = { "X-Forwarded-For": "198.51.100.1" };
  const first = await openList(client);
  const second = openList(client);
  expect(await isPending(second)).toBe(true);

  const keyed = await Promise.all([openList({ "X-API-KEY": key }), openList({ "X-API-KEY": key })]);
  expect(keyed.map(({ status }) => status)).toEqual([200, 200]);
  const third = openList({ "X-API-KEY": key });
  expect(await isPending(third)).toBe(true);
  const other = await openList({ "X-Forwarded-For": "198.51.100.2" });
  expect(other.status).toBe(200);

  await first.cancel();
  expect((await second).status).toBe(200);
  await keyed[0].cancel();
  expect((await third).status).toBe(200);
  for (const list of [await second, await third, keyed[1], other]) await list.cancel();
});

test("a client's long lists beyond four that wait are 503 at once, and say why", async ({ api, path, openList }) => {
  const client = { "X-Forwarded-For": "198.51.100.3" };
  const first = await openList(client);
  const asked = Array.from({ length: 5 }, () => api.get(path, { headers: client }));
  const refused = await Promise.race(asked);
  expect(refused.status).toBe(503);
  expect(await refused.json()).toMatchObject({
    detail: expect.stringContaining("a client reads one at a time"),
  });
  // Checks and pages need no turn of a list.
  expect((await api.get(`${path}?limit=1`, { headers: client })).status).toBe(200);
  await first.cancel();
  const served = asked.map(async (list) => {
    const { status, body } = await list;
    if (status === 200) await body?.cancel();
    return status;
  });
  expect((await Promise.all(served)).toSorted()).toEqual([200, 200, 200, 200, 503]);
});

test("an owner reads two long lists at a time, with any number of keys and addresses", async ({
  openList,
  database,
}) => {
  const keys = [(await addKey(database)).key, (await addKey(database)).key];
  await database.query("update service.api_key set owner = 'owner', slot = id where prefix = any ($1)", [
    keys.map(prefixOf),
  ]);
  const openWith = (index: number) =>
    openList({ "X-API-KEY": keys[index % 2] ?? "", "X-Forwarded-For": `198.51.100.${10 + index}` });
  const open = await Promise.all([openWith(0), openWith(1)]);
  const third = openWith(2);
  expect(await isPending(third)).toBe(true);
  const other = await openList({ "X-Forwarded-For": "198.51.100.20" });
  expect([...open, other].map(({ status }) => status)).toEqual([200, 200, 200]);
  await open[0].cancel();
  expect((await third).status).toBe(200);
  for (const list of [open[1], other, await third]) await list.cancel();
});
