import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { prefixOf } from "../../../api/keys/api-key.ts";
import { type Api, CHECK, createSampleDatabase, FRESH_FOR_A_DAY, launchApi, startApi } from "../../support/api.ts";
import { createDatabaseRelay } from "../../support/database-relay.ts";
import { addKey } from "../../support/keys.ts";
import { newWallet, signedIn, Visitor } from "../../support/portal.ts";
import { until } from "../../support/setup.ts";

let databaseUrl: string;
let database: pg.Client;
let api: Api;
beforeAll(async () => {
  databaseUrl = await createSampleDatabase();
  database = new pg.Client(databaseUrl);
  await database.connect();
  api = await launchApi({ databaseUrl, env: FRESH_FOR_A_DAY });
});
afterAll(async () => {
  await api?.stop();
  await database?.end();
});

const ask = async (key: string, at = api) => {
  const response = await at.get(CHECK, { headers: { "X-API-KEY": key } });
  return { status: response.status, limit: response.headers.get("RateLimit"), body: await response.text() };
};

const ANSWERED = { status: 200, limit: null, body: "true" };

test("a key is made, used, listed with its use, revoked, and refused at once", async () => {
  const visitor = await signedIn(api);
  const { status, json } = await visitor.makeKey("  Example app ");
  expect(status).toBe(201);
  const { key, ...made } = json;
  expect(made).toEqual({
    name: "Example app",
    prefix: prefixOf(key),
    createdAt: expect.any(String),
    revokedAt: null,
    lastUsedAt: null,
    requests: 0,
    days: [],
  });
  expect(await visitor.keys()).toEqual([made]);

  expect(await ask(key)).toEqual(ANSWERED);
  expect(await ask(key)).toEqual(ANSWERED);
  const used = await until(
    "its use is written down",
    async () => (await visitor.keys())[0],
    20,
    (key) => key?.requests === 2,
  );
  const today = new Date().toISOString().slice(0, 10);
  expect(used).toMatchObject({ lastUsedAt: expect.any(String), days: [{ day: today, requests: 2 }] });

  expect((await visitor.send(`keys/${made.prefix}`, { method: "DELETE" })).status).toBe(204);
  const refused = await ask(key);
  expect(refused.status).toBe(401);
  expect(refused.body).toContain("has been revoked");
  expect((await visitor.keys())[0]).toMatchObject({ prefix: made.prefix, revokedAt: expect.any(String) });
  // To revoke it again changes nothing.
  const [before] = await visitor.keys();
  expect((await visitor.send(`keys/${made.prefix}`, { method: "DELETE" })).status).toBe(204);
  expect(await visitor.keys()).toEqual([before]);
});

test("a key is shown once, and stored nowhere", async () => {
  const visitor = await signedIn(api);
  const { key } = (await visitor.makeKey("once")).json;
  expect((await visitor.send("keys")).body).not.toContain(key);
  const { rows } = await database.query("select * from service.api_key where prefix = $1", [prefixOf(key)]);
  expect(JSON.stringify(rows)).not.toContain(key);
});

test("a key works in every process", async () => {
  const { key } = (await (await signedIn(api)).makeKey("everywhere")).json;
  expect(await ask(key, await startApi({ databaseUrl, env: FRESH_FOR_A_DAY }))).toEqual(ANSWERED);
});

describe("a wallet may have five keys", () => {
  const limitOf = (answers: readonly { status: number }[]) => answers.map(({ status }) => status).sort();

  test("a sixth is refused until one is revoked", async () => {
    const visitor = await signedIn(api);
    const answers = [];
    for (let number = 0; number < 6; number++) answers.push(await visitor.makeKey(`key ${number}`));
    expect(limitOf(answers)).toEqual([201, 201, 201, 201, 201, 409]);
    expect(answers.at(-1)?.json).toMatchObject({
      type: "/docs#problem-too-many-keys",
      detail: "A wallet may have 5 keys here. Revoke one to make another.",
    });
    await visitor.send(`keys/${answers[2]?.json.prefix}`, { method: "DELETE" });
    expect(limitOf([await visitor.makeKey("another"), await visitor.makeKey("one too many")])).toEqual([201, 409]);
    expect((await visitor.keys()).map(({ name, revokedAt }) => `${name}${revokedAt ? " (revoked)" : ""}`)).toEqual([
      "another",
      "key 4",
      "key 3",
      "key 1",
      "key 0",
      "key 2 (revoked)",
    ]);
  });

  test("five of thirty are made when they come at the same moment, from two browsers, to two processes", async () => {
    const other = await startApi({ databaseUrl, env: { ...FRESH_FOR_A_DAY, PUBLIC_URL: api.url } });
    const wallet = newWallet();
    const here = await signedIn(api, wallet);
    const there = here.at(other);
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, number) =>
        (number % 2 ? here : there).send("keys", {
          method: "POST",
          body: { name: `key ${number}` },
          headers: { Origin: api.url },
        }),
      ),
    );
    expect(limitOf(answers)).toEqual([...Array(5).fill(201), ...Array(25).fill(409)]);
    expect(await here.keys()).toHaveLength(5);
  });

  test("a sixth is refused while another process is making the fifth", async () => {
    const wallet = newWallet();
    const visitor = await signedIn(api, wallet);
    for (let number = 0; number < 4; number++) await visitor.makeKey(`key ${number}`);
    await database.query("begin");
    await database.query(
      "insert into service.api_key (name, prefix, hash, owner, slot) values ('last', 'delreg_last', 'hash', $1, 5)",
      [wallet.address.toLowerCase()],
    );
    const answering = visitor.makeKey("one too many");
    await until(
      "it waits for the other process",
      async () => (await database.query("select from pg_locks where not granted")).rows.length > 0,
      5,
    ).finally(() => database.query("commit"));
    expect((await answering).status).toBe(409);
    expect(await visitor.keys()).toHaveLength(5);
  });

  test("DEVELOPER_KEYS_PER_WALLET sets another number, and a wallet that has more keeps them", async () => {
    const wallet = newWallet();
    const visitor = await signedIn(api, wallet);
    for (let number = 0; number < 3; number++) await visitor.makeKey(`key ${number}`);
    const strict = await startApi({ databaseUrl, env: { DEVELOPER_KEYS_PER_WALLET: "2", PUBLIC_URL: api.url } });
    const there = visitor.at(strict);
    const answer = await there.send("keys", { method: "POST", body: { name: "x" }, headers: { Origin: api.url } });
    expect(answer).toMatchObject({ status: 409, json: { detail: expect.stringContaining("2 keys") } });
    expect(await there.keys()).toHaveLength(3);
  });
});

test("a wallet cannot list or revoke keys of others, and cannot tell them from keys that do not exist", async () => {
  const [owner, stranger] = [await signedIn(api), await signedIn(api)];
  const { key, prefix } = (await owner.makeKey("mine")).json;
  const operators = await addKey(database, "the operator's");
  expect(await stranger.keys()).toEqual([]);
  const answers = await Promise.all(
    [prefix, prefixOf(operators.key), "delreg_none", "%", "1"].map(async (handle) => {
      const { status, body } = await stranger.send(`keys/${handle}`, { method: "DELETE" });
      return { status, body };
    }),
  );
  for (const answer of answers) expect(answer).toEqual(answers[0]);
  expect(answers[0]?.status).toBe(404);
  expect(await ask(key)).toEqual(ANSWERED);
  expect(await ask(operators.key)).toEqual(ANSWERED);
});

test("a wallet has its keys in every browser", async () => {
  const wallet = newWallet();
  await (await signedIn(api, wallet)).makeKey("first");
  expect((await (await signedIn(api, wallet)).keys()).map(({ name }) => name)).toEqual(["first"]);
});

test("a key cannot be made without a session", async () => {
  expect(await new Visitor(api).makeKey("x")).toMatchObject({
    status: 401,
    json: { type: "/docs#problem-not-signed-in" },
  });
});

test("every request is a 503 while Postgres cannot be reached", async () => {
  const relay = await createDatabaseRelay(databaseUrl);
  await relay.open();
  const visitor = await signedIn(await startApi({ databaseUrl: relay.url }));
  relay.close();
  const expectUnavailable = async (path: string, method: string, body?: unknown) =>
    expect(await visitor.send(path, { method, body })).toMatchObject({
      status: 503,
      headers: { "retry-after": expect.any(String) },
      json: { type: "/docs#problem-database-unavailable" },
    });
  await expectUnavailable("keys", "GET");
  await expectUnavailable("session", "GET");
  await expectUnavailable("challenge", "POST", { address: newWallet().address, chainId: 1 });
  await expectUnavailable("keys", "POST", { name: "x" });
  await expectUnavailable("session", "DELETE");
});

test("a request is a 503 while the tables are missing", async () => {
  const visitor = await signedIn(api);
  await database.query("alter table service.session rename to session_");
  try {
    expect(await visitor.send("keys")).toMatchObject({
      status: 503,
      json: { type: "/docs#problem-database-unavailable", detail: expect.stringContaining("not there yet") },
    });
  } finally {
    await database.query("alter table service.session_ rename to session");
  }
});
