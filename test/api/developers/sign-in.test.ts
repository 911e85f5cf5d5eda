import type { OutgoingHttpHeaders } from "node:http";
import { connect } from "node:net";
import { networkInterfaces } from "node:os";
import { createSiweMessage, parseSiweMessage, type SiweMessage } from "viem/siwe";
import { describe, expect } from "vitest";
import { startTestApi } from "../../support/api.ts";
import { createWallet, signInVisitor, Visitor } from "../../support/developers.ts";
import { sendBytes, sendHttp } from "../../support/http.ts";
import { createDatabase, waitUntil } from "../../support/setup.ts";
import { test as base } from "../../support/test.ts";

const test = base
  .extend("databaseUrl", () => createDatabase())
  .extend("env", { LOG_LEVEL: "trace" })
  .extend("visitor", ({ api }) => new Visitor(api))
  /** A sign-in of `visitor` that is signed, but not sent. */
  .extend("signing", async ({ visitor }) => {
    const wallet = createWallet();
    const message = await visitor.begin(wallet.address);
    return { wallet, message, signature: await wallet.signMessage({ message }) };
  });

type SessionAnswer = { origin: string | null; session: { address: string; expiresAt: string } | null };
const readSession = async (visitor: Visitor) => (await visitor.send<SessionAnswer>("session")).json.session;

type Refusal = { status: number; json: { type: string; detail: string } };

const expectProblem = (answer: Refusal, status: number, problem: string, detail: string | RegExp = /./) => {
  expect(answer).toMatchObject({ status, json: { type: `/docs#problem-${problem}`, status } });
  expect(answer.json.detail).toMatch(detail);
};
const expectRefused = (answer: Refusal, detail: string | RegExp = /./) =>
  expectProblem(answer, 403, "sign-in-refused", detail);

test("a wallet signs in with one signature, and signs out", async ({ api, visitor }) => {
  const wallet = createWallet();
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
  expect(cookie).toMatch(/^delegations-session=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict$/);
  expect(await readSession(visitor)).toMatchObject({ address: wallet.address });

  const [, token = ""] = /=([\w-]{43});/.exec(cookie) ?? [];
  const out = await visitor.send("session", { method: "DELETE" });
  expect(out.status).toBe(204);
  expect(out.headers["set-cookie"]).toEqual([expect.stringMatching(/^delegations-session=; .*Max-Age=0/)]);
  // The cookie is no longer valid.
  visitor.cookies.set("delegations-session", token);
  expect(await readSession(visitor)).toBeNull();
  expectProblem(await visitor.send("keys"), 401, "not-signed-in");
});

describe("sign-in is refused", () => {
  const later = (ms: number) => new Date(Date.now() + ms);

  test.for<[string, (message: SiweMessage) => Partial<SiweMessage>]>([
    ["another domain", () => ({ domain: "evil.example" })],
    ["another port of the same host", () => ({ domain: "127.0.0.1:1" })],
    ["a scheme before the domain", () => ({ scheme: "https" })],
    ["another page", ({ uri }) => ({ uri: `${uri}/other` })],
    ["another scheme", ({ uri }) => ({ uri: uri.replace("http:", "https:") })],
    ["another chain", () => ({ chainId: 10 })],
    ["another wallet", () => ({ address: createWallet().address })],
    ["an unknown nonce", () => ({ nonce: "0".repeat(32) })],
    ["an expired message", () => ({ issuedAt: later(-600_000), expirationTime: later(-1) })],
    ["a future time of issue", () => ({ issuedAt: later(120_000), expirationTime: later(180_000) })],
    ["another time of issue", ({ issuedAt }) => ({ issuedAt: new Date(Number(issuedAt) - 1) })],
    ["a message that is not valid yet", () => ({ notBefore: later(60_000) })],
    ["a message that is valid since a minute ago", () => ({ notBefore: later(-60_000) })],
    ["no expiry", () => ({ expirationTime: undefined })],
    ["a validity of a day", () => ({ expirationTime: later(86_400_000) })],
    ["another statement", () => ({ statement: "Give me a million." })],
    ["resources", () => ({ resources: ["https://evil.example/terms"] })],
    ["a request id", () => ({ requestId: "1" })],
  ])("for a signed message with %s, and the right one is still accepted", async ([, change], { visitor, signing }) => {
    const { wallet, message, signature } = signing;
    const asked = parseSiweMessage(message) as SiweMessage;
    const changed = createSiweMessage({ ...asked, ...change(asked) });
    expect(changed).not.toBe(message);
    expectRefused(await visitor.finish(changed, await wallet.signMessage({ message: changed })), "not the message");
    expect(await readSession(visitor)).toBeNull();
    expect(await visitor.finish(message, signature)).toMatchObject({ status: 200 });
  });

  test.for<[string, (message: string) => string]>([
    ["another version", (message) => message.replace("Version: 1", "Version: 2")],
    ["text after it", (message) => `${message}\nand more`],
    ["a line break after it", (message) => `${message}\n`],
    ["other line breaks", (message) => message.replaceAll("\n", "\r\n")],
    ["a wallet in lower case", (message) => message.replace(/0x\w{40}/, (wallet) => wallet.toLowerCase())],
    [
      "fields in the statement, and others after it",
      (message) => message.replace("Sign in to", `${message.split("\n\n")[2]}`),
    ],
    ["no fields at all", () => "hello"],
    ["no text", () => ""],
  ])("for a signed message with %s", async ([, change], { visitor, signing: { wallet, ...begun } }) => {
    const message = change(begun.message);
    expectRefused(await visitor.finish(message, await wallet.signMessage({ message })), "not the message");
  });

  test("for a sign-in that an older version of the API began, without the hash of its message", async ({
    visitor,
    signing,
    database,
  }) => {
    const { message, signature } = signing;
    const { rows } = await database.query("delete from service.sign_in where nonce = $1 returning *", [
      parseSiweMessage(message).nonce,
    ]);
    const { nonce, browser, wallet, chain_id, expires_at } = rows[0];
    await database.query(
      `insert into service.sign_in (nonce, browser, wallet, chain_id, expires_at) values ($1, $2, $3, $4, $5)
       on conflict (nonce) do nothing`,
      [nonce, browser, wallet, chain_id, expires_at],
    );
    expectRefused(await visitor.finish(message, signature), "Start again");
    expect(await readSession(visitor)).toBeNull();
  });

  test("for the signature of another key", async ({ visitor, signing }) => {
    const { message } = signing;
    const forged = await createWallet().signMessage({ message });
    expectRefused(await visitor.finish(message, forged), "not the signature of the wallet's own key");
    expect(await readSession(visitor)).toBeNull();
  });

  test("for a message that was used before, in the same browser", async ({ visitor, signing }) => {
    const { message, signature } = signing;
    expect(await visitor.finish(message, signature)).toMatchObject({ status: 200 });
    expectRefused(await visitor.finish(message, signature), "was used already");
  });

  test("for a message that was sent with a wrong signature before", async ({ visitor, signing }) => {
    const { message, signature } = signing;
    expectRefused(await visitor.finish(message, "0x00"));
    expectRefused(await visitor.finish(message, signature), "was used already");
  });

  test("in another browser than the one that began it, which can still finish it", async ({
    visitor,
    signing,
    api,
  }) => {
    const { wallet, message, signature } = signing;
    const other = new Visitor(api);
    expectRefused(await other.finish(message, signature), "not the message of this browser's sign-in");
    await other.begin(wallet.address);
    expectRefused(await other.finish(message, signature), "not the message of this browser's sign-in");
    expect(await visitor.finish(message, signature)).toMatchObject({ status: 200 });
  });

  test("after its row has expired, even if the row still exists", async ({ visitor, signing, database }) => {
    const { message, signature } = signing;
    const { nonce } = parseSiweMessage(message);
    await database.query("update service.sign_in set expires_at = now() where nonce = $1", [nonce]);
    expectRefused(await visitor.finish(message, signature), "has expired");
  });

  test("for 19 of 20 concurrent requests that finish it", async ({ visitor, signing }) => {
    const { message, signature } = signing;
    const answers = await Promise.all(Array.from({ length: 20 }, () => visitor.finish(message, signature)));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(19).fill(403)]);
  });
});

test("sign-in returns 503 until the column of a new version exists", async ({ visitor, signing, database }) => {
  await database.query("alter table service.sign_in rename column message to message_");
  try {
    const answer = await visitor.finish(signing.message, signing.signature);
    expectProblem(answer, 503, "database-unavailable", "do not exist yet");
  } finally {
    await database.query("alter table service.sign_in rename column message_ to message");
  }
});

describe("a session", () => {
  test("expires, and the next sign-in deletes expired sessions and sign-ins", async ({ api, database }) => {
    await database.query("delete from service.session; delete from service.sign_in");
    const owner = await signInVisitor(api);
    await new Visitor(api).begin(createWallet().address);
    await database.query(
      "update service.session set expires_at = now(); update service.sign_in set expires_at = now()",
    );
    expect(await readSession(owner)).toBeNull();
    expectProblem(await owner.send("keys"), 401, "not-signed-in");
    await signInVisitor(api);
    const { rows } = await database.query(
      "select (select count(*) from service.session) + (select count(*) from service.sign_in) as rows",
    );
    expect(rows).toEqual([{ rows: "1" }]);
  });

  test("ends with another sign-in in the same browser", async ({ owner: visitor, api }) => {
    const old = visitor.at(api);
    const wallet = createWallet();
    await visitor.signIn(wallet);
    expect(await readSession(visitor)).toMatchObject({ address: wallet.address });
    expect(await readSession(old)).toBeNull();
  });

  test("cannot be guessed", async ({ visitor }) => {
    for (const token of ["A".repeat(43), "", "' or true --", "../../x"]) {
      visitor.cookies.set("delegations-session", token);
      expect(await readSession(visitor)).toBeNull();
    }
  });

  test("is valid in every process, and its stored token is not a valid cookie", async ({
    api,
    database,
    databaseUrl,
  }) => {
    const other = await startTestApi({ databaseUrl, env: { PUBLIC_URL: api.url } });
    const wallet = createWallet();
    const visitor = await signInVisitor(api, wallet);
    expect(await readSession(visitor.at(other))).toMatchObject({ address: wallet.address });
    const { rows } = await database.query("select token from service.session");
    const cookie = visitor.cookies.get("delegations-session") ?? "";
    expect(rows).not.toContainEqual({ token: cookie });
    for (const { token } of rows) {
      visitor.cookies.set("delegations-session", token);
      expect(await readSession(visitor)).toBeNull();
    }
  });
});

describe("a request from another site, which carries the cookie,", () => {
  const CHANGES = {
    "POST challenge": { address: createWallet().address, chainId: 1 },
    "POST session": { message: "", signature: "0x" },
    "DELETE session": undefined,
    "POST keys": { name: "theirs" },
    "DELETE keys/delreg_0000": undefined,
  };
  const FOREIGN = {
    "another origin": { Origin: "https://evil.example", "Sec-Fetch-Site": "cross-site" },
    "another origin, in an old browser": { Origin: "https://evil.example", "Sec-Fetch-Site": undefined },
    "another port of the same host": { Origin: "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site" },
    "a page without an origin": { Origin: "null" },
    "no Origin header": { Origin: undefined },
    "our origin, but another site by Sec-Fetch-Site": { "Sec-Fetch-Site": "cross-site" },
  };
  const CASES = Object.entries(CHANGES).flatMap(([change, body]) =>
    Object.entries(FOREIGN).map(([from, headers]) => ({ change, body, from, headers })),
  );
  test.for(CASES)("cannot change anything: $change from $from", async ({ change, body, headers }, { owner }) => {
    const [method = "", path = ""] = change.split(" ");
    expectProblem(await owner.send(path, { method, body, headers }), 403, "cross-site");
    expect(await readSession(owner)).not.toBeNull();
    expect(await owner.keys()).toEqual([]);
  });

  test.for(["session", "keys"])("cannot read anything: %s", async (path, { owner }) => {
    const sites = [{ "Sec-Fetch-Site": "cross-site" }, { "Sec-Fetch-Site": "same-site" }];
    for (const headers of [{ Origin: "https://evil.example" }, ...sites]) {
      expectProblem(await owner.send(path, { headers }), 403, "cross-site");
    }
  });

  test("gets no CORS headers, and no preflight", async ({ owner: visitor }) => {
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

  test.for([
    "application/x-www-form-urlencoded",
    "text/plain",
    "multipart/form-data; boundary=x",
    "text/json",
    undefined,
  ])("cannot send a form as JSON: %s", async (type, { owner }) => {
    const form = { method: "POST", body: '{"name":"theirs"}', headers: { "Content-Type": type } };
    expectProblem(await owner.send("keys", form), 415, "unsupported-body");
    expect(await owner.keys()).toEqual([]);
  });
});

describe("the site of a sign-in", () => {
  const begin = (visitor: Visitor, headers: OutgoingHttpHeaders) =>
    visitor.send("challenge", { method: "POST", body: { address: createWallet().address, chainId: 1 }, headers });

  test("does not come from the Host header, which a proxy with another name could set", async ({ visitor }) => {
    expectRefused(await begin(visitor, { Host: "evil.example", Origin: "http://evil.example" }), "PUBLIC_URL");
    const loopback = ["localhost.evil.example", "127.0.0.1.evil.example", "127.999.0.1", "[::1]:8080"];
    for (const host of ["evil.example", ...loopback]) {
      const { json } = await visitor.send<SessionAnswer>("session", { headers: { Host: host } });
      expect(json).toEqual({ origin: null, session: null });
    }
  });

  test.for<[string, OutgoingHttpHeaders]>([
    ["X-Forwarded-For", { "X-Forwarded-For": "127.0.0.1" }],
    ["an empty X-Forwarded-For", { "X-Forwarded-For": "" }],
    ["X-Forwarded-Proto", { "X-Forwarded-Proto": "http" }],
    ["Forwarded", { Forwarded: "for=127.0.0.1" }],
    ["Via", { Via: "1.1 proxy" }],
    ["X-Real-IP", { "X-Real-IP": "127.0.0.1" }],
    ["True-Client-IP", { "True-Client-IP": "127.0.0.1" }],
    ["CF-Connecting-IP", { "CF-Connecting-IP": "127.0.0.1" }],
  ])("is no loopback host through a proxy that sends %s", async ([, headers], { visitor }) => {
    const { json } = await visitor.send<SessionAnswer>("session", { headers });
    expect(json).toEqual({ origin: null, session: null });
    expectRefused(await begin(visitor, headers), "not through a proxy");
  });

  test("is no loopback host through a trusted proxy, nor over HTTP/1.0", async ({ api, databaseUrl }) => {
    const proxied = await startTestApi({ databaseUrl, env: { TRUST_PROXY: "127.0.0.1" } });
    expect((await new Visitor(proxied).send<SessionAnswer>("session")).json.origin).toBeNull();
    const other = await startTestApi({ databaseUrl, env: { TRUST_PROXY: "10.0.0.0/8" } });
    expect((await new Visitor(other).send<SessionAnswer>("session")).json.origin).toBe(other.url);
    const head = `GET /developers/api/session HTTP/1.0\r\nHost: ${new URL(api.url).host}\r\n\r\n`;
    expect((await sendBytes(api.port, head)).body).toBe('{"origin":null,"session":null}');
  });

  const outside = Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .find(({ family, internal }) => family === "IPv4" && !internal)?.address;
  test.skipIf(!outside)("is no loopback host for a client with another address", async ({ api }) => {
    for (const host of ["localhost", "127.0.0.1"]) {
      const headers = { Host: `${host}:${api.port}`, Origin: `http://${host}:${api.port}` };
      const path = "/developers/api/session";
      const answer = await sendHttp(api.port, { path, headers, ...(outside && { localAddress: outside }) });
      expect(answer.body).toBe('{"origin":null,"session":null}');
    }
  });

  test("is PUBLIC_URL, and over https the cookie is bound to its host", async ({ databaseUrl }) => {
    const secure = await startTestApi({ databaseUrl, env: { PUBLIC_URL: "https://api.example" } });
    const [visitor, wallet] = [new Visitor(secure), createWallet()];
    const headers = { Origin: "https://api.example", Host: "10.0.0.7:8080" };
    const message = await visitor.begin(wallet.address, 1, headers);
    expect(message).toMatch(/^api\.example wants you to sign in/);
    expect(message).toContain("URI: https://api.example/developers");
    const answer = await visitor.finish(message, await wallet.signMessage({ message }), headers);
    expect(answer.headers["set-cookie"]).toEqual([
      expect.stringMatching(/^__Host-session=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Strict$/),
    ]);
    expect(await readSession(visitor)).toMatchObject({ address: wallet.address });
    const elsewhere = await visitor.send("session", { method: "DELETE", headers: { Origin: secure.url } });
    expectProblem(elsewhere, 403, "cross-site", "https://api.example/developers");
  });
});

describe("a body", () => {
  test("with bad fields returns 400 with each of them", async ({ owner: visitor }) => {
    const parameters = async (path: string, body: unknown) => {
      const answer = visitor.send<{ errors: { parameter: string }[] }>(path, { method: "POST", body });
      const { status, json } = await answer;
      expect(status, JSON.stringify(body)).toBe(400);
      return json.errors.map(({ parameter }) => parameter);
    };
    expect(await parameters("challenge", { address: "0x12", chainId: 1.5 })).toEqual(["address", "chainId"]);
    expect(await parameters("challenge", {})).toEqual(["address", "chainId"]);
    expect(await parameters("session", { signature: "hello" })).toEqual(["message", "signature"]);
    const tooLong = { message: "x".repeat(2_001), signature: "0x" };
    expect(await parameters("session", tooLong)).toEqual(["message"]);
    expect(await parameters("session", { message: "", signature: `0x${"0".repeat(30_001)}` })).toEqual(["signature"]);
    for (const body of ["", "{", "null", "[]", '"name"', "\u0000"])
      expect(await parameters("keys", body)).toEqual(["body"]);
  });

  test("of more than 32 KB returns 413", async ({ owner: visitor }) => {
    const body = { name: "x".repeat(40_000) };
    expectProblem(await visitor.send("keys", { method: "POST", body }), 413, "body-too-large");
    const chunked = await visitor.send("keys", { method: "POST", body, headers: { "Transfer-Encoding": "chunked" } });
    expectProblem(chunked, 413, "body-too-large");
  });

  test("that is cut off is logged as 400, not as an unexpected error", async ({ api }) => {
    const countLogged = () => api.output().split('"route":"/developers/api/challenge","status":400').length;
    const before = countLogged();
    const socket = connect(api.port, "127.0.0.1");
    socket.end(
      [
        "POST /developers/api/challenge HTTP/1.1",
        `Host: ${new URL(api.url).host}`,
        `Origin: ${api.url}`,
        "Content-Type: application/json",
        'Content-Length: 100\r\n\r\n{"address":"0x',
      ].join("\r\n"),
    );
    await waitUntil("the request is logged", () => countLogged() > before);
    expect(api.output()).not.toContain("Unexpected error");
  });
});

test.for([
  ["challenge", "POST"],
  ["session", "GET, POST, DELETE"],
  ["keys", "GET, POST"],
  ["keys/delreg_0000", "DELETE"],
] as const)("/developers/api/%s allows %s, and returns 405 for another method", async ([path, allow], { visitor }) => {
  expect(await visitor.send(path, { method: "PUT" })).toMatchObject({ status: 405, headers: { allow } });
});

test("sign-in has its own rate limit per address, apart from /registry", async ({ databaseUrl }) => {
  const limited = await startTestApi({
    databaseUrl,
    env: {
      RATE_LIMIT_REQUESTS: "3",
      RATE_LIMIT_WINDOW_SECONDS: "3600",
      TRUST_PROXY: "127.0.0.1/32",
      PUBLIC_URL: "https://api.example",
    },
  });
  const visitor = new Visitor(limited);
  const begin = (address: string) =>
    visitor.send("challenge", {
      method: "POST",
      body: { address: createWallet().address, chainId: 1 },
      headers: { Origin: "https://api.example", "X-Forwarded-For": address },
    });
  for (let request = 0; request < 3; request++) expect((await begin("192.0.2.1")).status).toBe(200);
  const refused = await begin("192.0.2.1");
  expectProblem(refused, 429, "rate-limited");
  expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
  expect((await begin("192.0.2.2")).status).toBe(200);
  const question = await limited.get("/registry/v2/check/all", { headers: { "X-Forwarded-For": "192.0.2.1" } });
  expect([question.status, question.headers.get("RateLimit")]).toEqual([400, expect.stringContaining("r=2;")]);
});

test("DEVELOPER_PORTAL=off removes the page, its API and its documentation", async ({ databaseUrl }) => {
  const without = await startTestApi({ databaseUrl, env: { DEVELOPER_PORTAL: "off" } });
  for (const path of ["/developers", "/developers/api/session", "/developers/api/keys"]) {
    expect((await without.get(path)).status).toBe(404);
  }
  expect((await sendHttp(without.port, { path: "/developers/api/challenge", method: "POST" })).status).toBe(405);
  expect(await (await without.get("/openapi.json")).text()).not.toContain("/developers");
});

test("the log contains no cookie, address, signature, nonce, key or name of a key", async ({
  visitor,
  signing,
  api,
}) => {
  const { wallet, message, signature } = signing;
  await visitor.finish(message, signature);
  const { json } = await visitor.makeKey("secret project");
  await visitor.finish(message, signature);
  await waitUntil("the requests are logged", () => api.output().includes("/developers/api/keys"));
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
