import { describe, expect } from "vitest";
import { generateKey } from "../../api/keys/api-key.ts";
import { type Api, CHECK, OPERATIONS, VAULT } from "../support/api.ts";
import { sendHttp } from "../support/http.ts";
import { addKey, misspellKey, revokeAddedKey } from "../support/keys.ts";
import { test as base } from "../support/test.ts";

type Keys = { known: string; revoked: string; unknown: string };

// The API creates the table of keys.
const test = base.extend("keys", { scope: "file" }, async ({ api: _api, database }): Promise<Keys> => {
  const [{ key: known }, { key: revoked }] = [await addKey(database), await addKey(database)];
  await revokeAddedKey(database, revoked);
  return { known, revoked, unknown: generateKey() };
});

/** Sends a path as it is, unlike fetch. */
const ask = ({ port }: Api, path: string, key?: string, method = "GET") =>
  sendHttp(port, { path, method, headers: key === undefined ? {} : { "X-API-KEY": key } });

const MISSPELT = /X-API-KEY is misspelt or cut off.*Copy the key again/;
const REFUSED: [what: string, keyOf: (keys: Keys) => string, reason: RegExp][] = [
  ["an unknown key", ({ unknown }) => unknown, /is unknown.*Leave out X-API-KEY/],
  ["a revoked key", ({ revoked }) => revoked, /has been revoked.*Use another one/],
  ["a key with a typo", ({ known }) => misspellKey(known), MISSPELT],
  ["a key that is cut off", ({ known }) => known.slice(0, -1), MISSPELT],
  ["a key in quotes", ({ known }) => `"${known}"`, MISSPELT],
  ["several keys in one", ({ known }) => `${known}, ${known}`, MISSPELT],
  ["a key of another service", () => "dk_live_6f1c0f4f5b7e4c1d9a3e2b8d7c6a5f40", MISSPELT],
  ["a short text", () => "x", MISSPELT],
  ["a long text", () => "k".repeat(4000), MISSPELT],
  ["a placeholder", () => "<API_KEY>", MISSPELT],
  ["the word undefined", () => "undefined", MISSPELT],
  ["quotes and SQL", () => `' or 1=1 --"`, MISSPELT],
  ["letters that are no ASCII", () => "clé", MISSPELT],
];

describe("v2 returns 401", () => {
  test.for(REFUSED)(
    "with the reason for %s, in any spelling of the header",
    async ([, keyOf, reason], { api, keys }) => {
      for (const name of ["x-api-key", "X-Api-Key", "X-API-KEY"]) {
        const response = await api.get(CHECK, { headers: { [name]: keyOf(keys) } });
        expect(response.status, name).toBe(401);
        expect(response.headers.get("content-type")).toBe("application/problem+json");
        expect(response.headers.get("cache-control")).toBe("no-store");
        expect(await response.json()).toEqual({
          type: "/docs#problem-unknown-key",
          title: "Unknown API key",
          status: 401,
          detail: expect.stringMatching(reason),
        });
      }
    },
  );

  test.for([...OPERATIONS.v2, `/registry/v2/${VAULT}/`, `/registry/%76%32/${VAULT}`, `/registry/v1/../v2/${VAULT}`])(
    "for an unknown key only: %s",
    async (path, { api, keys }) => {
      expect((await ask(api, path)).status, "without a key").toBe(200);
      expect((await ask(api, path, keys.known)).status, "with a known key").toBe(200);
      expect((await ask(api, path, keys.unknown)).status).toBe(401);
      expect((await ask(api, path, keys.unknown, "HEAD")).status).toBe(401);
    },
  );

  test("before it reads parameters", async ({ api, keys }) => {
    expect((await ask(api, "/registry/v2/check/all?to=garbage", keys.unknown)).status).toBe(401);
  });
});

test.for([...REFUSED, ["a known key", ({ known }: Keys) => known] as const])(
  "v1 ignores %s",
  async ([, keyOf], { api, keys }) => {
    for (const path of OPERATIONS.v1) {
      const [without, { status, body, headers }] = [await ask(api, path), await ask(api, path, keyOf(keys))];
      expect([status, body]).toEqual([200, without.body]);
      expect(headers["ratelimit-policy"]).toBe(without.headers["ratelimit-policy"]);
    }
  },
);

test("v2 ignores a key in the query or in Authorization", async ({ api, keys }) => {
  const path = `${CHECK}&X-API-KEY=${keys.unknown}&apiKey=${keys.unknown}`;
  const response = await api.get(path, { headers: { Authorization: `Bearer ${keys.unknown}` } });
  expect(await response.text()).toBe("true");
});
