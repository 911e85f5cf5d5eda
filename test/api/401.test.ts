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

/** Not the key of anybody. */
const KEY = "dk_live_6f1c0f4f5b7e4c1d9a3e2b8d7c6a5f40";

const ask = (path: string, key = KEY, name = "X-API-KEY") => api.get(path, { headers: { [name]: key } });

const UNKNOWN_KEYS = {
  "a made-up one": KEY,
  "a short one": "x",
  "a long one": "k".repeat(4000),
  "a placeholder": "<API_KEY>",
  "the word undefined": "undefined",
  "one with quotes and SQL": `' or 1=1 --"`,
  "several in one": `${KEY}, ${KEY}`,
  "letters that are no ASCII": "clé",
};

describe("on v2, a key that is not known is refused", () => {
  test.each(V2)("%s", async (path) => {
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

  test.each(Object.entries(UNKNOWN_KEYS))("%s", async (_, key) => {
    expect((await ask(`/registry/v2/${VAULT}`, key)).status).toBe(401);
  });

  test.each(["x-api-key", "X-Api-Key", "X-API-KEY"])("in a header that is spelled %s", async (name) => {
    expect((await ask(`/registry/v2/${VAULT}`, KEY, name)).status).toBe(401);
  });

  test("to a HEAD as well", async () => {
    const response = await api.get(`/registry/v2/${VAULT}`, { method: "HEAD", headers: { "X-API-KEY": KEY } });
    expect(response.status).toBe(401);
  });

  test("before its parameters are looked at", async () => {
    expect((await ask("/registry/v2/check/all?to=garbage")).status).toBe(401);
  });

  test("and never answered, not even with a trailing slash or an encoded path", async () => {
    for (const path of [`/registry/v2/${VAULT}/`, `/registry/%76%32/${VAULT}`, `/registry/v1/../v2/${VAULT}`]) {
      expect((await api.get(path)).status, path).toBe(200);
      expect((await ask(path)).status, path).toBe(401);
    }
  });
});

describe("on v1, a key makes no difference", () => {
  test.each(V1)("%s", async (path) => {
    const [without, withKey] = [await api.get(path), await ask(path)];
    expect(withKey.status).toBe(200);
    expect(await withKey.text()).toBe(await without.text());
  });

  test.each(Object.entries(UNKNOWN_KEYS))("%s", async (_, key) => {
    const response = await ask(`/registry/v1/check/all?delegate=${HOT}&vault=${VAULT}`, key);
    expect(response.status).toBe(200);
    expect(await response.text()).toBe("true");
  });
});

test("a key elsewhere than in its header is no key", async () => {
  const path = `${CHECK}&X-API-KEY=${KEY}&apiKey=${KEY}`;
  const response = await api.get(path, { headers: { Authorization: `Bearer ${KEY}` } });
  expect(await response.text()).toBe("true");
});

test("a key is never told to anybody: neither in an answer nor in what the process prints", async () => {
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
  await until("the last request is in the log", async () => api.output().includes("the-last"));
  expect(api.output()).not.toContain(KEY);
});
