import { describe, expect } from "vitest";
import { prefixOf } from "../../../api/keys/api-key.ts";
import { type Api, CHECK, FRESH_FOR_A_DAY, startTestApi } from "../../support/api.ts";
import { runKeys } from "../../support/commands.ts";
import { createWallet, signInVisitor, Visitor } from "../../support/developers.ts";
import { addKey } from "../../support/keys.ts";
import { waitUntil } from "../../support/setup.ts";
import { createDatabaseRelay } from "../../support/tcp-relay.ts";
import { test as base } from "../../support/test.ts";

const test = base
  /** Another process of the same service, which has no key cached. */
  .extend("other", async ({ api, databaseUrl }) =>
    startTestApi({ databaseUrl, env: { ...FRESH_FOR_A_DAY, PUBLIC_URL: api.url } }),
  );

const ask = async (api: Api, key: string) => {
  const response = await api.get(CHECK, { headers: { "X-API-KEY": key } });
  return { status: response.status, limit: response.headers.get("RateLimit"), body: await response.text() };
};

const ANSWERED = { status: 200, limit: null, body: "true" };

test("a key is created, used, listed with its usage, revoked, and refused at once", async ({ api, owner: visitor }) => {
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

  expect(await ask(api, key)).toEqual(ANSWERED);
  expect(await ask(api, key)).toEqual(ANSWERED);
  const used = await waitUntil(
    "its usage is stored",
    async () => (await visitor.keys())[0],
    20,
    (key) => key?.requests === 2,
  );
  const today = new Date().toISOString().slice(0, 10);
  expect(used).toMatchObject({ lastUsedAt: expect.any(String), days: [{ day: today, requests: 2 }] });

  expect((await visitor.send(`keys/${made.prefix}`, { method: "DELETE" })).status).toBe(204);
  const refused = await ask(api, key);
  expect(refused.status).toBe(401);
  expect(refused.body).toContain("has been revoked");
  expect((await visitor.keys())[0]).toMatchObject({ prefix: made.prefix, revokedAt: expect.any(String) });
  // Revoking it again changes nothing.
  const [before] = await visitor.keys();
  expect((await visitor.send(`keys/${made.prefix}`, { method: "DELETE" })).status).toBe(204);
  expect(await visitor.keys()).toEqual([before]);
});

test("a key is shown once, not stored, and works in every process", async ({ owner, database, other }) => {
  const { key } = (await owner.makeKey("once")).json;
  expect((await owner.send("keys")).body).not.toContain(key);
  const { rows } = await database.query("select * from service.api_key where prefix = $1", [prefixOf(key)]);
  expect(JSON.stringify(rows)).not.toContain(key);
  expect(await ask(other, key)).toEqual(ANSWERED);
});

describe("a wallet may have five keys:", () => {
  const limitOf = (answers: readonly { status: number }[]) => answers.map(({ status }) => status).sort();

  test("a sixth is refused until one is revoked", async ({ owner: visitor }) => {
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

  test("thirty concurrent requests from two browsers to two processes create five", async ({ api, owner, other }) => {
    const there = owner.at(other);
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, number) =>
        (number % 2 ? owner : there).send("keys", {
          method: "POST",
          body: { name: `key ${number}` },
          headers: { Origin: api.url },
        }),
      ),
    );
    expect(limitOf(answers)).toEqual([...Array(5).fill(201), ...Array(25).fill(409)]);
    expect(await owner.keys()).toHaveLength(5);
  });

  test("a sixth is refused while another process creates the fifth", async ({ api, database }) => {
    const wallet = createWallet();
    const visitor = await signInVisitor(api, wallet);
    for (let number = 0; number < 4; number++) await visitor.makeKey(`key ${number}`);
    await database.query("begin");
    await database.query(
      "insert into service.api_key (name, prefix, hash, owner, slot) values ('last', 'delreg_last', 'hash', $1, 5)",
      [wallet.address.toLowerCase()],
    );
    const answering = visitor.makeKey("one too many");
    await waitUntil(
      "it waits for the other process",
      async () => (await database.query("select from pg_locks where not granted")).rows.length > 0,
      5,
    ).finally(() => database.query("commit"));
    expect((await answering).status).toBe(409);
    expect(await visitor.keys()).toHaveLength(5);
  });

  test("DEVELOPER_KEYS_PER_WALLET changes the limit, and a wallet above it keeps its keys", async ({
    api,
    owner,
    databaseUrl,
  }) => {
    for (let number = 0; number < 3; number++) await owner.makeKey(`key ${number}`);
    const strict = await startTestApi({ databaseUrl, env: { DEVELOPER_KEYS_PER_WALLET: "2", PUBLIC_URL: api.url } });
    const there = owner.at(strict);
    const answer = await there.send("keys", { method: "POST", body: { name: "x" }, headers: { Origin: api.url } });
    expect(answer).toMatchObject({ status: 409, json: { detail: expect.stringContaining("2 keys") } });
    expect(await there.keys()).toHaveLength(3);
  });
});

test("a wallet may make twenty keys a day, revoked or not, and learns when it may make another", async ({
  api,
  database,
}) => {
  const wallet = createWallet();
  const visitor = await signInVisitor(api, wallet);
  const makeAndRevoke = async () => {
    const made = await visitor.makeKey("one of many");
    if (made.status === 201) await visitor.send(`keys/${made.json.prefix}`, { method: "DELETE" });
    return made;
  };
  for (let number = 0; number < 20; number++) expect((await makeAndRevoke()).status).toBe(201);
  const refused = await makeAndRevoke();
  expect(refused).toMatchObject({
    status: 429,
    json: { type: "/docs#problem-rate-limited", detail: expect.stringMatching(/20 keys a day.*after \d{4}-.* UTC/) },
  });
  expect(Number(refused.headers["retry-after"])).toBeGreaterThan(86_000);
  const owner = wallet.address.toLowerCase();
  await database.query(
    `update service.api_key set created_at = now() - interval '1 day' where id = (
      select min(id) from service.api_key where owner = $1)`,
    [owner],
  );
  expect([(await makeAndRevoke()).status, (await makeAndRevoke()).status]).toEqual([201, 429]);
  // Others are not affected.
  expect((await (await signInVisitor(api)).makeKey("first")).status).toBe(201);
});

test("a blocked account's keys are refused, it cannot create others, and it learns why; its keys return with it", async ({
  api,
  databaseUrl,
  other,
}) => {
  const wallet = createWallet();
  const visitor = await signInVisitor(api, wallet);
  const { key } = (await visitor.makeKey("abused")).json;
  const bystander = (await (await signInVisitor(api)).makeKey("innocent")).json.key;
  await runKeys(["block", wallet.address], databaseUrl);

  const refused = await ask(other, key);
  expect(refused.status).toBe(401);
  expect(refused.body).toContain("has blocked the owner of this API key");
  expect(await ask(other, bystander)).toEqual(ANSWERED);
  expect(await visitor.makeKey("another")).toMatchObject({
    status: 403,
    json: { type: "/docs#problem-account-blocked", detail: expect.stringContaining("blocked this account") },
  });
  expect((await visitor.send("keys")).json).toMatchObject({ isBlocked: true, keys: [{ name: "abused" }] });

  await runKeys(["unblock", wallet.address], databaseUrl);
  expect(await ask(await startTestApi({ databaseUrl, env: FRESH_FOR_A_DAY }), key)).toEqual(ANSWERED);
  expect((await visitor.makeKey("another")).status).toBe(201);
  expect((await visitor.send("keys")).json).toMatchObject({ isBlocked: false });
});

test("creating a key ends with a 503 if no prefix is free", async ({ owner: visitor, database }) => {
  await database.query(`
    create function service.refuse() returns trigger language plpgsql as 'begin return null; end';
    create trigger refuse before insert on service.api_key for each row execute function service.refuse()`);
  try {
    expect(await visitor.makeKey("none")).toMatchObject({
      status: 503,
      headers: { "retry-after": expect.any(String) },
      json: { type: "/docs#problem-overloaded", detail: expect.stringContaining("Try again") },
    });
  } finally {
    await database.query("drop function service.refuse cascade");
  }
  expect((await visitor.makeKey("one")).status).toBe(201);
});

test("a name is plain printable text, and none can pass for a key", async ({ owner: visitor }) => {
  const bad = {
    "no text": "",
    "only blanks": "  ",
    "65 letters": "x".repeat(65),
    "a null byte": "\u0000",
    "a number": 5,
    null: null,
    "an escape sequence": "\u001b[31mred",
    "a line break": "a\nb",
    "a line separator": "a\u2028b",
    "reversed text": "a\u202eb",
    "an invisible character": "a\u200bb",
    "an invisible letter": "\u3164",
    "a lone surrogate": "\ud800",
    "a prefix": "delreg_a1B2c3D4",
    "a prefix in capitals": "DELREG_a1B2c3D4",
    "a prefix in wide letters": "ｄｅｌｒｅｇ＿a1B2",
    "a prefix after a space": "  delreg_a1B2",
  };
  for (const [what, name] of Object.entries(bad)) {
    const answer = await visitor.send("keys", { method: "POST", body: { name } });
    expect(answer, what).toMatchObject({ status: 400, json: { detail: expect.stringMatching(/^name must/) } });
  }
  for (const name of ["Example app (2)", "Größe & Söhne", "東京", "साइट", "a_b", "🚀"]) {
    const answer = await visitor.makeKey(name);
    expect(answer, name).toMatchObject({ status: 201, json: { name } });
    await visitor.send(`keys/${answer.json.prefix}`, { method: "DELETE" });
  }
});

test("a revoked key is refused as revoked for 30 days, then deleted with its usage", async ({
  database,
  databaseUrl,
}) => {
  const [older, old] = [await addKey(database, "older"), await addKey(database, "old")];
  await database.query(
    `update service.api_key set revoked_at = now() - make_interval(days => case id when $1 then 30 else 29 end)
      where id in ($1, $2)`,
    [older.id, old.id],
  );
  await database.query("insert into service.api_key_usage select unnest($1::bigint[]), '2024-01-01', 1, now()", [
    [older.id, old.id],
  ]);
  const started = await startTestApi({ databaseUrl, env: FRESH_FOR_A_DAY });
  const { rows } = await waitUntil(
    "a key is deleted",
    () =>
      database.query("select api_key_id from service.api_key_usage where api_key_id in ($1, $2)", [older.id, old.id]),
    20,
    ({ rows }) => rows.length < 2,
  );
  expect(rows).toEqual([{ api_key_id: old.id }]);
  expect(await ask(started, older.key)).toMatchObject({ status: 401, body: expect.stringContaining("is unknown") });
  expect(await ask(started, old.key)).toMatchObject({ status: 401, body: expect.stringContaining("been revoked") });
});

test("a wallet cannot list or revoke keys of others, nor tell them from keys that do not exist", async ({
  api,
  owner,
  database,
}) => {
  const stranger = await signInVisitor(api);
  const { key, prefix } = (await owner.makeKey("mine")).json;
  const operators = await addKey(database, "the operator's");
  expect(await stranger.keys()).toEqual([]);
  const answers = await Promise.all(
    [prefix, prefixOf(operators.key), "delreg_none", "%", "%00", "1"].map(async (handle) => {
      const { status, body } = await stranger.send(`keys/${handle}`, { method: "DELETE" });
      return { status, body };
    }),
  );
  for (const answer of answers) expect(answer).toEqual(answers[0]);
  expect(answers[0]?.status).toBe(404);
  expect(await ask(api, key)).toEqual(ANSWERED);
  expect(await ask(api, operators.key)).toEqual(ANSWERED);
});

test("a wallet sees its keys in every browser, and nobody creates one without a session", async ({ api }) => {
  const wallet = createWallet();
  await (await signInVisitor(api, wallet)).makeKey("first");
  expect((await (await signInVisitor(api, wallet)).keys()).map(({ name }) => name)).toEqual(["first"]);
  const refused = await new Visitor(api).makeKey("x");
  expect(refused).toMatchObject({ status: 401, json: { type: "/docs#problem-not-signed-in" } });
});

test("every request returns 503 while Postgres is unreachable", async ({ databaseUrl }) => {
  const relay = await createDatabaseRelay(databaseUrl);
  await relay.open();
  const visitor = await signInVisitor(await startTestApi({ databaseUrl: relay.url }));
  relay.close();
  for (const [path, method, body] of [
    ["keys", "GET"],
    ["session", "GET"],
    ["challenge", "POST", { address: createWallet().address, chainId: 1 }],
    ["keys", "POST", { name: "x" }],
    ["session", "DELETE"],
  ] as const) {
    expect(await visitor.send(path, { method, body })).toMatchObject({
      status: 503,
      headers: { "retry-after": expect.any(String) },
      json: { type: "/docs#problem-database-unavailable" },
    });
  }
});

test("a request returns 503 while the tables are missing", async ({ owner, database }) => {
  await database.query("alter table service.session rename to session_");
  try {
    expect(await owner.send("keys")).toMatchObject({
      status: 503,
      json: { type: "/docs#problem-database-unavailable", detail: expect.stringContaining("do not exist yet") },
    });
  } finally {
    await database.query("alter table service.session_ rename to session");
  }
});
