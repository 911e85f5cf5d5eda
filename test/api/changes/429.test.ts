import { expect } from "vitest";
import { isProgress, openStream } from "../../support/changes.ts";
import { addKey } from "../../support/keys.ts";
import { waitUntil } from "../../support/setup.ts";
import { test as base } from "../../support/test.ts";

const PER_ADDRESS = 10;
const PER_OWNER = 100;
const LIMIT = 15;
const test = base.extend("env", { RATE_LIMIT_REQUESTS: String(LIMIT), RATE_LIMIT_WINDOW_SECONDS: "3600" });

const readReaders = async (api: { metrics: () => Promise<string> }) =>
  Number(/^delegation_registry_changes_readers (\d+)$/m.exec(await api.metrics())?.[1]);

test("an address has places for streams, which it gets back; a key has places of its own", async ({
  api,
  database,
}) => {
  const streams = [];
  for (let place = 0; place < PER_ADDRESS; place++) streams.push(await openStream(api, "?finality=latest"));
  const headers = { Accept: "text/event-stream" };
  const refused = await api.get("/changes", { headers });
  expect(refused.status).toBe(429);
  expect(refused.headers.get("Retry-After")).toBe("30");
  expect(await refused.json()).toMatchObject({ detail: expect.stringContaining("10 open streams") });
  expect(await readReaders(api)).toBe(PER_ADDRESS);

  const { key } = await addKey(database);
  const keyed = {
    get: (path: string, init?: RequestInit) =>
      api.get(path, { ...init, headers: { ...init?.headers, "X-API-KEY": key } }),
  };
  for (let place = 0; place < PER_OWNER; place++) streams.push(await openStream(keyed, "?finality=latest"));
  const refusedKeyed = await keyed.get("/changes", { headers });
  expect(refusedKeyed.status).toBe(429);
  expect(await refusedKeyed.json()).toMatchObject({ detail: expect.stringContaining("100 open streams") });
  streams.shift()?.close();
  streams.pop()?.close();
  await waitUntil("two places are back", async () => (await readReaders(api)) === PER_ADDRESS + PER_OWNER - 2);
  streams.push(await openStream(keyed, "?finality=latest"));
  expect((await keyed.get("/changes", { headers })).status, "the other place was another caller's").toBe(429);
  expect((await api.get("/changes")).status, "a page takes no place").toBe(200);

  for (const stream of streams) {
    await stream.readUntil(isProgress);
    stream.close();
  }
  await waitUntil("no stream is open", async () => (await readReaders(api)) === 0);
  await openStream(api, "");

  // Opening one is one request: the refused one and the page count too.
  expect((await api.get("/changes")).headers.get("RateLimit")).toContain(`r=${LIMIT - PER_ADDRESS - 4}`);
});
