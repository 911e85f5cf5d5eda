import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Api, CHECK, HOT, launchSampleApi, OPERATIONS, VAULT } from "../support/api.ts";
import { until } from "../support/setup.ts";

let api: Api;
beforeAll(async () => {
  // With everything that it would ever print.
  api = await launchSampleApi({ LOG_LEVEL: "trace" });
});
afterAll(() => api?.stop());

const { v1: V1, v2: V2 } = OPERATIONS;

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

describe("on v2, an unknown key is a 401", () => {
  test.for(V2)("%s", async (path) => {
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

  test("to a HEAD, and before parameters are looked at", async () => {
    const head = await api.get(`/registry/v2/${VAULT}`, { method: "HEAD", headers: { "X-API-KEY": KEY } });
    expect(head.status).toBe(401);
    expect((await ask("/registry/v2/check/all?to=garbage")).status).toBe(401);
  });

  test("with a trailing slash, an encoded path and a path through v1", async () => {
    for (const path of [`/registry/v2/${VAULT}/`, `/registry/%76%32/${VAULT}`, `/registry/v1/../v2/${VAULT}`]) {
      expect((await api.get(path)).status, path).toBe(200);
      expect((await ask(path)).status, path).toBe(401);
    }
  });
});

describe("on v1, a key makes no difference", () => {
  test.for(V1)("%s", async (path) => {
    const [without, withKey] = [await api.get(path), await ask(path)];
    expect(withKey.status).toBe(200);
    expect(await withKey.text()).toBe(await without.text());
  });

  test.for(UNKNOWN_KEYS)("%s", async ([, key]) => {
    const response = await ask(`/registry/v1/check/all?delegate=${HOT}&vault=${VAULT}`, key);
    expect([response.status, await response.text()]).toEqual([200, "true"]);
  });
});

test("a key in the query or in Authorization is ignored", async () => {
  const path = `${CHECK}&X-API-KEY=${KEY}&apiKey=${KEY}`;
  const response = await api.get(path, { headers: { Authorization: `Bearer ${KEY}` } });
  expect(await response.text()).toBe("true");
});

test("no answer and no log line has a key in it", async () => {
  const secret = `secret-${KEY}`;
  for (const path of [...V1, ...V2, "/registry/v2/garbage", "/nothing", "/health", "/status"]) {
    for (const method of ["GET", "HEAD", "OPTIONS", "POST"]) {
      const response = await api.get(path, { method, headers: { "X-API-KEY": secret } });
      const answer = [response.statusText, ...[...response.headers].flat(), await response.text()].join("\n");
      expect(answer, `${method} ${path}`).not.toContain(secret);
    }
  }
  const last = { "X-API-KEY": secret, "X-Request-Id": "the-last" };
  await api.get(`/registry/v2/${VAULT}?key=${secret}`, { headers: last });
  await until("the last request is in the log", () => api.output().includes("the-last"));
  expect(api.output()).not.toContain(KEY);
});
