import { request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { PrivateKeyAccount } from "viem/accounts";
import { createSiweMessage, parseSiweMessage, type SiweMessage } from "viem/siwe";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Api, launchApi, startApi } from "../../support/api.ts";
import { sendHttp } from "../../support/http.ts";
import { newWallet, signedIn, Visitor } from "../../support/portal.ts";
import { createDatabase, until } from "../../support/setup.ts";

let databaseUrl: string;
let database: pg.Client;
let api: Api;
beforeAll(async () => {
  databaseUrl = await createDatabase();
  database = new pg.Client(databaseUrl);
  await database.connect();
  // With everything that it would ever print.
  api = await launchApi({ databaseUrl, env: { LOG_LEVEL: "trace" } });
});
afterAll(async () => {
  await api?.stop();
  await database?.end();
});

type SessionAnswer = { origin: string | null; session: { address: string; expiresAt: string } | null };
const readSession = async (visitor: Visitor) => (await visitor.send<SessionAnswer>("session")).json.session;

const expectRefused = (
  answer: { status: number; json: { type: string; detail: string } },
  status: number,
  problem: string,
  detail: string | RegExp = /./,
) => {
  expect(answer).toMatchObject({ status, json: { type: `/docs#problem-${problem}`, status } });
  expect(answer.json.detail).toMatch(detail);
};

test("a wallet signs in with one signature, and out again", async () => {
  const [visitor, wallet] = [new Visitor(api), newWallet()];
  expect(await readSession(visitor)).toBeNull();
  const message = await visitor.begin(wallet.address, 137);
  expect(message).toContain(
    `${new URL(api.url).host} wants you to sign in with your Ethereum account:\n${wallet.address}\n`,
  );
  expect(parseSiweMessage(message)).toMatchObject({
    uri: `${api.url}/developers`,
    version: "1",
    chainId: 137,
    nonce: expect.stringMatching(/^[0-9a-f]{32}$/),
    expirationTime: expect.any(Date),
  });

  const { status, json, headers } = await visitor.finish(message, await wallet.signMessage({ message }));
  expect({ status, json }).toMatchObject({
    status: 200,
    json: { session: { address: wallet.address, network: null } },
  });
  const [cookie = ""] = headers["set-cookie"] ?? [];
  expect(cookie).toMatch(/^delegations-session=[\w-]{43}; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/);
  expect(await readSession(visitor)).toMatchObject({ address: wallet.address });

  const [, token = ""] = /=([\w-]{43});/.exec(cookie) ?? [];
  const out = await visitor.send("session", { method: "DELETE" });
  expect(out.status).toBe(204);
  expect(out.headers["set-cookie"]).toEqual([expect.stringMatching(/^delegations-session=; .*Max-Age=0/)]);
  // Also for whoever has kept the cookie.
  visitor.cookies.set("delegations-session", token);
  expect(await readSession(visitor)).toBeNull();
  expectRefused(await visitor.send("keys"), 401, "not-signed-in");
});

describe("a signed message is refused", () => {
  /** Signs something else than was asked for, in the same form. */
  const signOther = async (change: (message: SiweMessage) => Partial<SiweMessage>, by?: PrivateKeyAccount) => {
    const [visitor, wallet] = [new Visitor(api), newWallet()];
    const asked = parseSiweMessage(await visitor.begin(wallet.address)) as SiweMessage;
    const message = createSiweMessage({ ...asked, ...change(asked) });
    const answer = await visitor.finish(message, await (by ?? wallet).signMessage({ message }));
    expect(await readSession(visitor)).toBeNull();
    return answer;
  };
  const later = (ms: number) => new Date(Date.now() + ms);

  test("that another key has signed: forged", async () => {
    expectRefused(
      await signOther(() => ({}), newWallet()),
      403,
      "sign-in-refused",
      "not the signature of the wallet's own key",
    );
  });

  test.each<[string, RegExp, (message: SiweMessage) => Partial<SiweMessage>]>([
    ["for another domain", /for another domain/, () => ({ domain: "evil.example" })],
    ["for the same host on another port", /for another domain/, () => ({ domain: "127.0.0.1:1" })],
    ["for another page", /for another page/, ({ uri }) => ({ uri: `${uri}/other` })],
    ["for another scheme", /for another page/, ({ uri }) => ({ uri: uri.replace("http:", "https:") })],
    ["for another chain", /wallet and network/, () => ({ chainId: 10 })],
    ["for another wallet", /wallet and network/, () => ({ address: newWallet().address })],
    ["with a nonce that was never given out", /over, was used already/, () => ({ nonce: "0".repeat(32) })],
    ["that has expired", /has expired/, () => ({ issuedAt: later(-600_000), expirationTime: later(-1) })],
    [
      "that is issued in the future",
      /not valid yet/,
      () => ({ issuedAt: later(120_000), expirationTime: later(180_000) }),
    ],
    ["that is not valid yet", /not valid yet/, () => ({ notBefore: later(60_000) })],
    ["that never expires", /not the message/, () => ({ expirationTime: undefined })],
    ["that is valid for a day", /valid for too long/, () => ({ expirationTime: later(86_400_000) })],
    ["with another statement", /not the message/, () => ({ statement: "Give me a million." })],
  ])("%s", async (_, detail, change) => {
    expectRefused(await signOther(change), 403, "sign-in-refused", detail);
  });

  test.each<[string, (message: string) => string]>([
    ["with another version", (message) => message.replace("Version: 1", "Version: 2")],
    ["with text after it", (message) => `${message}\nand more`],
    [
      "with its fields in a statement, and others after it",
      (message) => message.replace("Sign in to", `${message.split("\n\n")[2]}`),
    ],
    ["that is no such message", () => "hello"],
    ["that is empty", () => ""],
  ])("%s", async (_, change) => {
    const [visitor, wallet] = [new Visitor(api), newWallet()];
    const message = change(await visitor.begin(wallet.address));
    expectRefused(
      await visitor.finish(message, await wallet.signMessage({ message })),
      403,
      "sign-in-refused",
      "not the message",
    );
  });

  test("a second time: replayed, by the same browser", async () => {
    const [visitor, wallet] = [new Visitor(api), newWallet()];
    const message = await visitor.begin(wallet.address);
    const signature = await wallet.signMessage({ message });
    expect(await visitor.finish(message, signature)).toMatchObject({ status: 200 });
    expectRefused(await visitor.finish(message, signature), 403, "sign-in-refused", "was used already");
  });

  test("once somebody has tried it with a wrong signature", async () => {
    const [visitor, wallet] = [new Visitor(api), newWallet()];
    const message = await visitor.begin(wallet.address);
    expectRefused(await visitor.finish(message, "0x00"), 403, "sign-in-refused");
    expectRefused(
      await visitor.finish(message, await wallet.signMessage({ message })),
      403,
      "sign-in-refused",
      "was used already",
    );
  });

  test("in another browser than the one that asked for it", async () => {
    const [visitor, other, wallet] = [new Visitor(api), new Visitor(api), newWallet()];
    const message = await visitor.begin(wallet.address);
    const signature = await wallet.signMessage({ message });
    expectRefused(await other.finish(message, signature), 403, "sign-in-refused", "in another browser");
    await other.begin(wallet.address);
    expectRefused(await other.finish(message, signature), 403, "sign-in-refused", "in another browser");
    // That did not take it from the first.
    expect(await visitor.finish(message, signature)).toMatchObject({ status: 200 });
  });

  test("after its time, also by a database that has not cleared it away yet", async () => {
    const [visitor, wallet] = [new Visitor(api), newWallet()];
    const message = await visitor.begin(wallet.address);
    const { nonce } = parseSiweMessage(message);
    await database.query("update service.sign_in set expires_at = now() where nonce = $1", [nonce]);
    expectRefused(
      await visitor.finish(message, await wallet.signMessage({ message })),
      403,
      "sign-in-refused",
      "is over",
    );
  });

  test("of twenty at the same moment, all but one", async () => {
    const [visitor, wallet] = [new Visitor(api), newWallet()];
    const message = await visitor.begin(wallet.address);
    const signature = await wallet.signMessage({ message });
    const answers = await Promise.all(Array.from({ length: 20 }, () => visitor.finish(message, signature)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(403)]);
  });
});

describe("a session", () => {
  test("ends by itself, and its row and those of old sign-ins are cleared away by the next ones", async () => {
    const visitor = await signedIn(api);
    await new Visitor(api).begin(newWallet().address);
    await database.query(
      "update service.session set expires_at = now(); update service.sign_in set expires_at = now()",
    );
    expect(await readSession(visitor)).toBeNull();
    expectRefused(await visitor.send("keys"), 401, "not-signed-in");
    await signedIn(api);
    const { rows } = await database.query(
      "select (select count(*) from service.session) + (select count(*) from service.sign_in) as rows",
    );
    expect(rows).toEqual([{ rows: "1" }]);
  });

  test("is the browser's only one: signing in again ends the one before", async () => {
    const visitor = await signedIn(api);
    const before = new Map(visitor.cookies);
    const wallet = newWallet();
    await visitor.signIn(wallet);
    expect(await readSession(visitor)).toMatchObject({ address: wallet.address });
    const old = new Visitor(api);
    for (const [name, value] of before) old.cookies.set(name, value);
    expect(await readSession(old)).toBeNull();
  });

  test("cannot be made up", async () => {
    const visitor = new Visitor(api);
    for (const token of ["A".repeat(43), "", "' or true --", "../../x"]) {
      visitor.cookies.set("delegations-session", token);
      expect(await readSession(visitor)).toBeNull();
    }
  });

  test("holds in every process, and what is stored of it signs in nobody", async () => {
    const other = await startApi({ databaseUrl, env: { PUBLIC_URL: api.url } });
    const wallet = newWallet();
    const visitor = await signedIn(api, wallet);
    const elsewhere = new Visitor(other);
    for (const [name, value] of visitor.cookies) elsewhere.cookies.set(name, value);
    expect(await readSession(elsewhere)).toMatchObject({ address: wallet.address });
    const { rows } = await database.query("select token from service.session");
    const cookie = visitor.cookies.get("delegations-session") ?? "";
    expect(rows).not.toContainEqual({ token: cookie });
    for (const { token } of rows) {
      visitor.cookies.set("delegations-session", token);
      expect(await readSession(visitor)).toBeNull();
    }
  });
});

describe("a request of another site is refused, though the cookie came with it", () => {
  const CHANGES = {
    "begin to sign in": ["challenge", "POST", { address: newWallet().address, chainId: 1 }],
    "sign in": ["session", "POST", { message: "", signature: "0x" }],
    "sign out": ["session", "DELETE", undefined],
    "make a key": ["keys", "POST", { name: "theirs" }],
    "revoke a key": ["keys/delreg_0000", "DELETE", undefined],
  } as const;
  const FOREIGN = {
    "another origin": { Origin: "https://evil.example", "Sec-Fetch-Site": "cross-site" },
    "another origin, in an old browser": { Origin: "https://evil.example", "Sec-Fetch-Site": undefined },
    "another port of the same host": { Origin: "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site" },
    "a page without an origin": { Origin: "null" },
    "no origin at all": { Origin: undefined },
    "a claim that the browser denies": { "Sec-Fetch-Site": "cross-site" },
  };

  describe.each(Object.entries(CHANGES))("%s", (_, [path, method, body]) => {
    test.each(Object.entries(FOREIGN))("%s", async (_, headers) => {
      const visitor = await signedIn(api);
      expectRefused(await visitor.send(path, { method, body, headers }), 403, "cross-site");
      expect(await readSession(visitor)).not.toBeNull();
      expect(await visitor.keys()).toEqual([]);
    });
  });

  test.each(["session", "keys"])("read %s", async (path) => {
    const visitor = await signedIn(api);
    for (const headers of [
      { Origin: "https://evil.example" },
      { "Sec-Fetch-Site": "cross-site" },
      { "Sec-Fetch-Site": "same-site" },
    ]) {
      expectRefused(await visitor.send(path, { headers }), 403, "cross-site");
    }
  });

  test("no answer is for another origin to read, and no preflight is granted", async () => {
    const visitor = await signedIn(api);
    const headers = { Origin: "https://evil.example", "Access-Control-Request-Method": "DELETE" };
    const answers = [
      await visitor.send("session"),
      await visitor.send("session", { headers }),
      await visitor.send("keys", { method: "OPTIONS", headers }),
      await visitor.send("keys/delreg_0000", { method: "DELETE" }),
      await visitor.makeKey(""),
    ];
    expect(answers.map(({ status }) => status)).toEqual([200, 403, 405, 404, 400]);
    for (const { headers } of answers) {
      expect(Object.keys(headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
      expect(headers).toMatchObject({ "cache-control": "no-store", "cross-origin-resource-policy": "same-origin" });
    }
  });

  test("a form of another site, whatever it calls itself", async () => {
    const visitor = await signedIn(api);
    for (const type of [
      "application/x-www-form-urlencoded",
      "text/plain",
      "multipart/form-data; boundary=x",
      "text/json",
      undefined,
    ]) {
      const answer = await visitor.send("keys", {
        method: "POST",
        body: '{"name":"theirs"}',
        headers: { "Content-Type": type },
      });
      expectRefused(answer, 415, "unsupported-body");
    }
    expect(await visitor.keys()).toEqual([]);
  });
});

describe("where people sign in", () => {
  const HOST = { Host: "evil.example", Origin: "http://evil.example" };

  test("is not what a Host header says: somebody could pass on what people sign for another name", async () => {
    const answer = await new Visitor(api).send("challenge", {
      method: "POST",
      body: { address: newWallet().address, chainId: 1 },
      headers: HOST,
    });
    expectRefused(answer, 403, "sign-in-refused", "PUBLIC_URL");
    for (const host of [
      "evil.example",
      "localhost.evil.example",
      "127.0.0.1.evil.example",
      "127.999.0.1",
      "[::1]:8080",
    ]) {
      const { json } = await new Visitor(api).send<SessionAnswer>("session", { headers: { Host: host } });
      expect(json).toEqual({ origin: null, session: null });
    }
  });

  test("is PUBLIC_URL: over https the cookie is for that host alone", async () => {
    const secure = await startApi({ databaseUrl, env: { PUBLIC_URL: "https://api.example" } });
    const [visitor, wallet] = [new Visitor(secure), newWallet()];
    const headers = { Origin: "https://api.example", Host: "10.0.0.7:8080" };
    const message = await visitor.begin(wallet.address, 1, headers);
    expect(message).toMatch(/^api\.example wants you to sign in/);
    expect(message).toContain("URI: https://api.example/developers");
    const answer = await visitor.finish(message, await wallet.signMessage({ message }), headers);
    expect(answer.headers["set-cookie"]).toEqual([
      expect.stringMatching(/^__Host-session=[\w-]{43}; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure$/),
    ]);
    expect(await readSession(visitor)).toMatchObject({ address: wallet.address });
    // Elsewhere the page says where it belongs.
    const elsewhere = await visitor.send("session", { method: "DELETE", headers: { Origin: secure.url } });
    expectRefused(elsewhere, 403, "cross-site", "https://api.example/developers");
  });
});

describe("what is sent", () => {
  test("is refused where it makes no sense, each part by its name", async () => {
    const visitor = await signedIn(api);
    const post = (path: string, body: unknown) =>
      visitor.send<{ errors: { parameter: string }[] }>(path, { method: "POST", body });
    const parameters = async (path: string, body: unknown) => {
      const { status, json } = await post(path, body);
      expect(status, JSON.stringify(body)).toBe(400);
      return json.errors.map(({ parameter }) => parameter);
    };
    expect(await parameters("challenge", { address: "0x12", chainId: 1.5 })).toEqual(["address", "chainId"]);
    expect(await parameters("challenge", {})).toEqual(["address", "chainId"]);
    expect(await parameters("session", { signature: "hello" })).toEqual(["message", "signature"]);
    for (const name of ["", "  ", "x".repeat(65), "two\nlines", "\u0000", 5, null])
      expect(await parameters("keys", { name })).toEqual(["name"]);
    for (const body of ["", "{", "null", "[]", '"name"', "\u0000"])
      expect(await parameters("keys", body)).toEqual(["body"]);
  });

  test("may not be large", async () => {
    const visitor = await signedIn(api);
    const body = { name: "x".repeat(40_000) };
    expectRefused(await visitor.send("keys", { method: "POST", body }), 413, "body-too-large");
    // Nor where its size is not told beforehand.
    const chunked = await visitor.send("keys", { method: "POST", body, headers: { "Transfer-Encoding": "chunked" } });
    expectRefused(chunked, 413, "body-too-large");
  });

  test("may not come bit by bit: after 5 s the client is told, and hung up on", async () => {
    const visitor = await signedIn(api);
    const startedAt = Date.now();
    const answer = await new Promise<{ status: number | undefined; connection: string | undefined }>(
      (resolve, reject) => {
        const sent = request(
          {
            port: api.port,
            host: "127.0.0.1",
            path: "/developers/api/keys",
            method: "POST",
            headers: {
              Origin: api.url,
              Cookie: [...visitor.cookies].map((cookie) => cookie.join("=")).join("; "),
              "Content-Type": "application/json",
              "Content-Length": 100,
            },
          },
          (response) => {
            resolve({ status: response.statusCode, connection: response.headers.connection });
            response.resume();
          },
        );
        sent.on("error", reject);
        const drip = async () => {
          while (!sent.destroyed) {
            sent.write(" ");
            await sleep(500);
          }
        };
        drip();
      },
    );
    expect(answer).toEqual({ status: 408, connection: "close" });
    expect(Date.now() - startedAt).toBeLessThan(8_000);
  });

  test("and broken off leaves no trace in the log", async () => {
    const visitor = await signedIn(api);
    const sent = request({
      port: api.port,
      host: "127.0.0.1",
      path: "/developers/api/keys",
      method: "POST",
      headers: {
        Origin: api.url,
        Cookie: [...visitor.cookies].map((cookie) => cookie.join("=")).join("; "),
        "Content-Type": "application/json",
        "Content-Length": 100,
      },
    });
    sent.on("error", () => {});
    sent.write("{");
    await sleep(100);
    sent.destroy();
    await until("the request is logged", async () =>
      /"POST","route":"\/developers\/api\/keys","status":400/.test(api.output()),
    );
    expect(api.output()).not.toContain("Unexpected error");
  });
});

test("other methods are refused, with those that there are", async () => {
  for (const [path, allow] of [
    ["challenge", "POST"],
    ["session", "GET, POST, DELETE"],
    ["keys", "GET, POST"],
    ["keys/delreg_0000", "DELETE"],
  ] as const) {
    const answer = await new Visitor(api).send(path, { method: "PUT" });
    expect(answer).toMatchObject({ status: 405, headers: { allow } });
  }
});

test("who asks too often is told to wait: counted for each address, and apart from questions about delegations", async () => {
  const limited = await startApi({
    databaseUrl,
    env: { RATE_LIMIT_REQUESTS: "3", RATE_LIMIT_WINDOW_SECONDS: "3600", TRUST_PROXY: "127.0.0.1/32" },
  });
  const visitor = new Visitor(limited);
  const begin = (address: string) =>
    visitor.send("challenge", {
      method: "POST",
      body: { address: newWallet().address, chainId: 1 },
      headers: { "X-Forwarded-For": address },
    });
  for (let request = 0; request < 3; request++) expect((await begin("192.0.2.1")).status).toBe(200);
  const refused = await begin("192.0.2.1");
  expectRefused(refused, 429, "rate-limited");
  expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
  expect((await begin("192.0.2.2")).status).toBe(200);
  const question = await limited.get("/registry/v2/check/all", { headers: { "X-Forwarded-For": "192.0.2.1" } });
  expect([question.status, question.headers.get("RateLimit")]).toEqual([400, expect.stringContaining("r=2;")]);
});

test("DEVELOPER_PORTAL=off: there is nothing", async () => {
  const without = await startApi({ databaseUrl, env: { DEVELOPER_PORTAL: "off" } });
  for (const path of ["/developers", "/developers/api/session", "/developers/api/keys"]) {
    expect((await without.get(path)).status).toBe(404);
  }
  expect((await sendHttp(without.port, { path: "/developers/api/challenge", method: "POST" })).status).toBe(405);
  expect(await (await without.get("/openapi.json")).text()).not.toContain("/developers");
});

test("nothing that signs anybody in is in a log", async () => {
  const [visitor, wallet] = [new Visitor(api), newWallet()];
  const message = await visitor.begin(wallet.address);
  const signature = await wallet.signMessage({ message });
  await visitor.finish(message, signature);
  const { json } = await visitor.makeKey("secret project");
  await visitor.finish(message, signature);
  await until("it is logged", async () => api.output().includes("/developers/api/keys"));
  const secrets = [
    ...visitor.cookies.values(),
    wallet.address,
    signature,
    parseSiweMessage(message).nonce ?? "",
    json.key,
    "secret project",
  ];
  for (const secret of secrets) expect(api.output().toLowerCase()).not.toContain(secret.toLowerCase());
});
