import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Api, CHECK, HOT, launchSampleApi, OPERATIONS, VAULT } from "../support/api.ts";

let api: Api;
beforeAll(async () => {
  api = await launchSampleApi();
});
afterAll(() => api?.stop());

/** A key that was never issued. */
const KEY = "dk_live_6f1c0f4f5b7e4c1d9a3e2b8d7c6a5f40";

const ask = (path: string, key = KEY, name = "X-API-KEY") => api.get(path, { headers: { [name]: key } });

const UNKNOWN_KEYS = [
  ["a made-up one", KEY],
  ["a short one", "x"],
  ["a long one", "k".repeat(4000)],
  ["a placeholder", "<API_KEY>"],
  ["the word undefined", "undefined"],
  ["one with quotes and SQL", `' or 1=1 --"`],
  ["several in one", `${KEY}, ${KEY}`],
  ["letters that are no ASCII", "clé"],
] as const;

describe("v2 returns 401 for an unknown key", () => {
  test.for(OPERATIONS.v2)("%s", async (path) => {
    expect((await api.get(path)).status, "without a key").toBe(200);
    const response = await ask(path);
    expect(response.status).toBe(401);
    expect(response.headers.get("content-type")).toBe("application/problem+json");
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(await response.json()).toEqual({
      type: "/docs#problem-unknown-key",
      title: "Unknown API key",
      status: 401,
      detail: expect.stringContaining("X-API-KEY"),
    });
  });

  test.for(UNKNOWN_KEYS)("%s", async ([, key]) => {
    for (const name of ["x-api-key", "X-Api-Key", "X-API-KEY"]) {
      expect((await ask(`/registry/v2/${VAULT}`, key, name)).status, name).toBe(401);
    }
  });

  test("to HEAD, and before it reads parameters", async () => {
    const head = await api.get(`/registry/v2/${VAULT}`, { method: "HEAD", headers: { "X-API-KEY": KEY } });
    expect(head.status).toBe(401);
    expect((await ask("/registry/v2/check/all?to=garbage")).status).toBe(401);
  });

  test("with a trailing slash, an encoded path or a path through v1", async () => {
    for (const path of [`/registry/v2/${VAULT}/`, `/registry/%76%32/${VAULT}`, `/registry/v1/../v2/${VAULT}`]) {
      expect((await api.get(path)).status, path).toBe(200);
      expect((await ask(path)).status, path).toBe(401);
    }
  });
});

test.for(UNKNOWN_KEYS)("v1 ignores a key: %s", async ([, key]) => {
  const response = await ask(`/registry/v1/check/all?delegate=${HOT}&vault=${VAULT}`, key);
  expect([response.status, await response.text()]).toEqual([200, "true"]);
});

test("v2 ignores a key in the query or in Authorization", async () => {
  const path = `${CHECK}&X-API-KEY=${KEY}&apiKey=${KEY}`;
  const response = await api.get(path, { headers: { Authorization: `Bearer ${KEY}` } });
  expect(await response.text()).toBe("true");
});
