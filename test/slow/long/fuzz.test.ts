import { Agent } from "node:http";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import pg from "pg";
import { expect } from "vitest";
import { generateKey } from "../../../api/keys/api-key.ts";
import { findFreePort } from "../../../process/ports.ts";
import { type ApiProcess, CHECK } from "../../support/api.ts";
import { createWallet, DEVELOPER_OPERATIONS, Visitor } from "../../support/developers.ts";
import { drawRequests, type FuzzRequest, findFault, isDocumented } from "../../support/fuzz.ts";
import { type HttpAnswer, sendHttp } from "../../support/http.ts";
import { addKey, extractSecret, misspellKey, revokeAddedKey } from "../../support/keys.ts";
import { findSamples, parseMetrics } from "../../support/metrics.ts";
import { listOperations, type Operation, readDocument } from "../../support/openapi.ts";
import { readResidentMb } from "../../support/processes.ts";
import { type Random, seededRandom } from "../../support/random.ts";
import { isNightly } from "../../support/run.ts";
import { test as base } from "../../support/service-test.ts";

// Random requests to every route, from callers with valid and invalid sessions and keys, behind odd proxies. Nothing but
// a documented answer may come back, and the process may not grow.

const REQUESTS = isNightly ? 100_000 : 30_000;
const CONNECTIONS = 32;
const DEADLINE_MS = 10_000;
const MAX_GROWTH_MB = 30;

const test = base
  .extend("env", { scope: "file" }, async () => {
    const port = await findFreePort();
    return {
      PORT: String(port),
      PUBLIC_URL: `http://127.0.0.1:${port}`,
      TRUST_PROXY: "127.0.0.1",
      RATE_LIMIT_REQUESTS: "10",
      RATE_LIMIT_WINDOW_SECONDS: "1",
      // A small heap, so that garbage is collected and only leaks remain.
      NODE_OPTIONS: "--max-old-space-size=120",
    };
  })
  .extend("pool", { scope: "file" }, ({ databaseUrl }, { onCleanup }) => {
    const pool = new pg.Pool({ connectionString: databaseUrl, max: 1 });
    onCleanup(() => pool.end());
    return pool;
  });

// Callers.

/** A session's cookie header, and the prefix of a key that it made. */
type Session = { cookie: string; prefix: string };

let visitors = 0;
/** Signs a visitor in, from an address of its own, and makes a key. Tries again if the service is too busy for it. */
const signIn = async (api: ApiProcess, tries = 5): Promise<Session> => {
  const [visitor, wallet] = [new Visitor(api), createWallet()];
  const headers = { "X-Forwarded-For": `198.18.${++visitors >> 8}.${visitors & 255}` };
  try {
    const message = await visitor.begin(wallet.address, 1, headers);
    const signedIn = await visitor.finish(message, await wallet.signMessage({ message }), headers);
    const made = await visitor.send<{ prefix: string }>("keys", { method: "POST", body: { name: "fuzz" }, headers });
    if (made.status !== 201) throw new Error(`${signedIn.status} ${signedIn.body}, ${made.status} ${made.body}`);
    const cookie = visitor.cookieHeader.split("; ").find((each) => each.includes("session=")) ?? "";
    return { cookie, prefix: made.json.prefix };
  } catch (error) {
    if (tries === 1) throw new Error(`Signing in failed five times: ${api.output()}`, { cause: error });
    await sleep(1_000);
    return signIn(api, tries - 1);
  }
};

const expire = (database: pg.Pool, { cookie }: Session) =>
  database.query(
    "update service.session set expires_at = now() where token = encode(sha256(convert_to($1, 'UTF8')), 'hex')",
    [cookie.split("=")[1]],
  );

/** Sessions of signed-in visitors, and ones that have ended: both are replaced while the test runs. */
type Callers = {
  sessions: [Session, ...Session[]];
  endedSessions: [signedOut: Session, expired: Session];
  validKeys: [string, ...string[]];
  revokedKeys: [string, ...string[]];
};

const prepareCallers = async (api: ApiProcess, database: pg.Pool): Promise<Callers> => {
  const makeKeys = async (): Promise<[string, string]> => [(await addKey(database)).key, (await addKey(database)).key];
  const [validKeys, revokedKeys] = [await makeKeys(), await makeKeys()];
  for (const key of revokedKeys) await revokeAddedKey(database, key);
  const endedSessions: Callers["endedSessions"] = [await signIn(api), await signIn(api)];
  await sendHttp(api.port, {
    method: "DELETE",
    path: "/developers/api/session",
    headers: { Cookie: endedSessions[0].cookie, Origin: api.url },
  });
  await expire(database, endedSessions[1]);
  const sessions: Callers["sessions"] = [await signIn(api)];
  while (sessions.length < 8) sessions.push(await signIn(api));
  return { sessions, endedSessions, validKeys, revokedKeys };
};

// Requests.

/** Stands for the prefix of a key that the sender's session made. */
const OWN_PREFIX = "OWN_PREFIX";

/** Lists every route of the service: the document's, the developer page's, and pages, as its metrics name them. */
const listRoutes = async (api: ApiProcess): Promise<{ routes: string[]; operations: Operation[] }> => {
  const pages = await Promise.all(
    ["/", "/insights", "/docs", "/developers"].map(async (path) => (await api.get(path)).text()),
  );
  const assets = pages.flatMap((html) => [...html.matchAll(/\/assets\/([\w.-]+)/g)].map(([, file = ""]) => file));
  const routes = findSamples(parseMetrics(await api.metrics()), "request_duration_seconds_count")
    .map(({ labels }) => labels.route ?? "")
    .filter((route) => route !== "unknown");
  const known = [...listOperations(readDocument()), ...DEVELOPER_OPERATIONS];
  const others = routes.filter((route) => !known.some(({ path }) => path === route));
  const values: Record<string, string[]> = { file: assets, prefix: [OWN_PREFIX, OWN_PREFIX, "delreg_0000"] };
  const parametersOf = (path: string) =>
    [...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => ({
      name,
      in: "path" as const,
      required: true,
      schema: { enum: values[name] ?? [] },
    }));
  const paths = others.map((path) => [
    path,
    { get: { operationId: path, responses: {}, parameters: parametersOf(path) } },
  ]);
  const operations = [...known, ...listOperations({ paths: Object.fromEntries(paths) })];
  return {
    routes,
    operations: operations.map((each) =>
      each.path.includes("{prefix}") ? { ...each, parameters: parametersOf(each.path) } : each,
    ),
  };
};

/** A request, and what its credentials are worth. */
type SentRequest = FuzzRequest & { isSignedIn: boolean; hasBadKey: boolean };

const HOSTS: [string, ...string[]] = [
  ...(["api.example", "LOCALHOST", "localhost:99999", "localhost:0", "[::1]:80", "evil.example@127.0.0.1"] as const),
  ...["a b", "", ".", "127.0.0.1.", "*", "x".repeat(300), "xn--80ak6aa92e.com", "127.0.0.1, evil.example"],
  ...["http://127.0.0.1", "\xe4"],
];
const ORIGINS = ["null", "", "http://evil.example", "http://127.0.0.1", "https://localhost", "file://", "*"];
const PROXIES: [string, ...string[]] = [
  ...(["127.0.0.1", "::1", "::ffff:203.0.113.9", "[2001:db8::1]:443", "203.0.113.9:1", "unknown", "_hidden"] as const),
  ...["", "0", "256.1.1.1", "127.1", "0x7f.1", "fe80::1%eth0", "1.2.3.4\t", "2001:db8::1::", '"', "x".repeat(300)],
];

/** Returns the cookies of a session, or ones that nobody may sign in with. */
const drawCookies = (random: Random, { endedSessions }: Callers, session: Session) => {
  if (random.chance(0.5)) return { isSignedIn: true, cookie: session.cookie };
  const [name = "", token = ""] = session.cookie.split("=");
  const cookie = random.pick([
    undefined,
    random.pick(endedSessions).cookie,
    `${name}=${token.slice(1)}`,
    `${name}=${token.toLowerCase()}x`,
    `${name}=${"A".repeat(43)}`,
    `__Host-session=${token}`,
    `${name.replace("session", "sign-in")}=${token}`,
    `${name}`,
    `${name}=%00; =; ;;; ${name}=`,
    `${name}="${token}`,
    `${"a=b; ".repeat(500)}`,
    `__proto__=${token}; constructor=x`,
  ]);
  return { isSignedIn: false, cookie };
};

const drawKey = (
  random: Random,
  { validKeys, revokedKeys }: Callers,
): { hasBadKey: boolean; key?: string | string[] } => {
  if (random.chance(0.7)) return { hasBadKey: false };
  const valid = random.pick(validKeys);
  if (random.chance(0.4)) return { hasBadKey: false, key: valid };
  const key = random.pick<string | string[]>([
    random.pick(revokedKeys),
    ...[generateKey(), misspellKey(valid), `${valid} `.repeat(2), "delreg_", "x", "*", [valid, valid], "\xe4"],
  ]);
  return { hasBadKey: true, key };
};

const drawProxies = (random: Random): string | undefined => {
  const address = () => Array.from({ length: 4 }, () => random.integer(1, 254)).join(".");
  if (random.chance(0.7)) return address();
  const chain = Array.from({ length: random.pick([0, 1, 2, 5, 100]) }, () =>
    random.chance(0.5) ? address() : random.pick(PROXIES),
  );
  return chain.length === 0 ? undefined : chain.join(random.pick([", ", ",", " , "]));
};

/** Sends a drawn request as one of the callers. */
const sendAs = (random: Random, callers: Callers, origin: string, drawn: FuzzRequest): SentRequest => {
  const session = random.pick(callers.sessions);
  const { isSignedIn, cookie } = drawCookies(random, callers, session);
  const { hasBadKey, key } = drawKey(random, callers);
  const headers = {
    ...drawn.headers,
    Host: random.chance(0.95) ? new URL(origin).host : random.pick(HOSTS),
    Origin: random.chance(0.85) ? origin : random.pick([`${origin}.evil.example`, ...ORIGINS]),
    "X-Forwarded-For": drawProxies(random),
    Cookie: cookie,
    "X-API-KEY": key,
  };
  const given = Object.entries(headers).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]));
  const path = drawn.path.replace(OWN_PREFIX, session.prefix);
  return { ...drawn, path, headers: Object.fromEntries(given), isSignedIn, hasBadKey };
};

// Answers.

/** Describes an answer that the sender has no right to. */
const findUndueAnswer = ({ method, path, isSignedIn, hasBadKey }: SentRequest, { status, body }: HttpAnswer) => {
  // Dots lead to another path.
  if (status >= 400 || method === "OPTIONS" || /\.\.|%2e/i.test(path)) return null;
  if (hasBadKey && /^\/(registry\/(v2\/|checks)|wallets\/)/.test(path)) return "a bad key is accepted";
  if (isSignedIn || !path.startsWith("/developers/api/")) return null;
  if (path.startsWith("/developers/api/keys")) return "an ended session is accepted";
  const isSession = method === "GET" && status === 200 && JSON.parse(body).session !== null;
  return isSession ? "an ended session is accepted" : null;
};

const faults: string[] = [];
const report = (fault: string, sent: unknown, answer: unknown): void => {
  const [asked, answered] = [sent, answer].map((value) => JSON.stringify(value)?.slice(0, 2_000));
  faults.push(`${fault}\n  asked: ${asked}\n  answer: ${answered}`);
};

const counts: Record<number, number> = {};
const count = (status: number) => {
  counts[status] = (counts[status] ?? 0) + 1;
};

const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });

const ask = async (port: number, sent: SentRequest, secrets: readonly string[]): Promise<void> => {
  const { method, path, body } = sent;
  // Node's client would send the body of some methods without its length, and refuses other characters in a URL.
  const headers = body === "" ? sent.headers : { ...sent.headers, "Content-Length": Buffer.byteLength(body) };
  const sendable = path.replaceAll(/[^\x21-\xff]/g, "%00");
  const send = (over: Agent | false) => {
    const signal = AbortSignal.timeout(DEADLINE_MS);
    return sendHttp(port, { method, path: sendable, headers, agent: over, signal }, body);
  };
  try {
    // The server may close a kept-alive connection at any time. A new one must get an answer.
    const answer = await send(agent).catch(() => send(false));
    count(answer.status);
    const hasSecret = secrets.some((secret) => answer.body.includes(secret));
    const fault = findFault(sent, answer) ?? (hasSecret ? "it has a secret" : findUndueAnswer(sent, answer));
    if (fault !== null) report(fault, sent, answer);
  } catch (error) {
    const { message } = error as Error;
    // The method of a malformed request is unknown: its rejection has a body.
    if (method !== "HEAD" || !message.includes("Data after")) report(`no answer: ${message}`, sent, null);
  }
};

// Raw bytes.

const writeRequest = ({ method, path, headers, body }: FuzzRequest): string => {
  const lines = Object.entries(headers).flatMap(([name, value]) => [value].flat().map((each) => `${name}: ${each}`));
  const length = body === "" ? [] : [`Content-Length: ${Buffer.byteLength(body, "latin1")}`];
  return [`${method} ${path} HTTP/1.1`, ...lines, ...length, "", body].join("\r\n");
};

const ODD_LINES = [
  "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\nGET /ready HTTP/1.1\r\nHost: x\r\n\r\n",
  "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
  "Transfer-Encoding : chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
  "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
  "Transfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\nX-Injected: 1\r\n\r\n",
  "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
  "Content-Length: -1\r\n\r\n",
  "Content-Length: 99999999999999999999\r\n\r\n",
  "Content-Length: 100\r\n\r\n{",
  "Host: x\r\nHost: y\r\n\r\n",
  "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
  "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n\x81\x05hello",
  "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAAA\r\n\r\n",
  " folded: x\r\n\r\n",
  "X-A: a\0b\r\n\r\n",
  "X-A: a\rX-Injected: 1\r\n\r\n",
  "\n\n",
  "no colon\r\n\r\n",
] as const;
const STARTS = [
  "GET / HTTP/1.1\r\nHost: x\r\n",
  "POST /developers/api/challenge HTTP/1.1\r\nHost: x\r\n",
  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  "GET /ready\r\n",
  "CONNECT evil.example:80 HTTP/1.1\r\n",
  "GET /ready HTTP/1.0\r\n",
  "GET  /ready HTTP/1.1\r\n",
  "get /ready HTTP/1.1\r\n",
  "\x16\x03\x01\x02\x00\x01\x00",
  "GET /\xff\x01 HTTP/1.1\r\n",
  "GET /ready HTTP/9.9\r\n",
] as const;

/** Ways to end a request after its last byte: the client waits, closes its half of the connection, or closes all of it. */
type Ending = "wait" | "half-close" | "close";

/** Sends bytes over a new connection, and returns what arrives until it is closed. */
const sendRaw = (port: number, bytes: string, ending: Ending) =>
  new Promise<string>((resolve) => {
    let answer = "";
    const socket = connect({ port, host: "127.0.0.1" });
    const timer = setTimeout(() => {
      answer += "no end";
      socket.destroy();
    }, DEADLINE_MS);
    socket.setEncoding("latin1");
    socket.on("data", (data) => {
      answer += data;
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      clearTimeout(timer);
      resolve(answer);
    });
    socket.write(bytes, "latin1", () => {
      if (ending === "close") socket.destroy();
      if (ending === "half-close") socket.end();
    });
  });

/** Draws requests as raw bytes: pipelined, half-closed, cut off, with bytes changed, or malformed from the start. */
const drawBytes = (
  random: Random,
  requests: readonly FuzzRequest[],
): { bytes: string; ending: Ending; how: string } => {
  const how = random.pick(["whole", "half-closed", "cut", "changed", "odd"]);
  const bytes = requests
    .map((each, index) => {
      const isLast = how === "whole" && index === requests.length - 1;
      return writeRequest(isLast ? { ...each, headers: { ...each.headers, Connection: "close" } } : each);
    })
    .join("");
  const at = random.integer(0, bytes.length);
  if (how === "whole") return { bytes, how, ending: "wait" };
  if (how === "cut") return { bytes: bytes.slice(0, at), how, ending: random.pick(["close", "half-close"]) };
  const ending = "half-close";
  if (how === "odd") return { bytes: `${random.pick(STARTS)}${random.pick(ODD_LINES)}`, how, ending };
  if (how === "half-closed") return { bytes, how, ending };
  const other = String.fromCharCode(random.integer(0, 255));
  return { bytes: `${bytes.slice(0, at)}${other}${bytes.slice(at + 1)}`, how, ending };
};

const askRaw = async (port: number, random: Random, requests: readonly FuzzRequest[], secrets: readonly string[]) => {
  const { bytes, how, ending } = drawBytes(random, requests);
  const answer = await sendRaw(port, bytes, ending);
  const statuses = [...answer.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
  // A malformed request ends the connection, and with it the answers to those before it.
  if (how === "whole" && requests.length === 1 && statuses.length === 0) report("no answer", bytes, answer);
  if (answer.endsWith("no end")) report("the connection stays open", bytes, answer);
  if (!statuses.every((status) => status === 100 || isDocumented(status)))
    report("a status is not documented", bytes, answer);
  if (/^x-injected:/im.test(answer)) report("a header is injected", bytes, answer);
  if (secrets.some((secret) => answer.includes(secret))) report("it has a secret", bytes, answer);
  for (const status of statuses) count(status);
};

test(`${REQUESTS} random requests with sessions, keys and odd proxies get a documented answer, in flat memory`, {
  timeout: 900_000,
}, async ({ service: api, pool, databaseUrl }) => {
  const random = seededRandom(import.meta.filename);
  const callers = await prepareCallers(api, pool);
  const { routes, operations } = await listRoutes(api);
  const secrets = [...callers.validKeys, ...callers.revokedKeys].map(extractSecret);
  secrets.push(...callers.endedSessions.map(({ cookie }) => cookie.split("=")[1] ?? ""), new URL(databaseUrl).password);
  const requests = drawRequests(operations);
  const drawn: FuzzRequest[] = [];
  const next = (): SentRequest => {
    if (drawn.length === 0) drawn.push(...fc.sample(requests, { numRuns: 500, seed: random.integer(0, 2 ** 31) }));
    return sendAs(random, callers, api.url, drawn.pop() as FuzzRequest);
  };
  const thirds: number[][] = [[], [], []];
  let sent = 0;

  const work = async () => {
    while (sent < REQUESTS && faults.length < 10) {
      thirds[Math.floor((3 * sent) / REQUESTS)]?.push(readResidentMb(api.pid));
      // Requests end some of the sessions.
      const renewed = random.chance(0.005) ? random.integer(0, callers.sessions.length - 1) : null;
      const pipelined = random.chance(0.1) ? random.integer(1, 10) : 0;
      sent += pipelined || 1;
      if (renewed !== null) {
        const expired = callers.sessions[renewed] ?? callers.sessions[0];
        callers.sessions[renewed] = await signIn(api);
        await expire(pool, expired);
        callers.endedSessions[1] = expired;
      } else if (pipelined === 0) await ask(api.port, next(), secrets);
      else await askRaw(api.port, random, Array.from({ length: pipelined }, next), secrets);
    }
  };
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: CONNECTIONS }, work));
  agent.destroy();
  const seconds = (performance.now() - startedAt) / 1000;
  const [, second = 0, third = 0] = thirds.map((samples) => samples.reduce((sum, mb) => sum + mb, 0) / samples.length);
  console.log(
    `${Math.round(sent / seconds)} requests/s; ${Math.round(second)} MB, then ${Math.round(third)} MB; statuses:`,
    counts,
  );

  expect(faults.join("\n\n")).toBe("");
  expect((await api.get("/ready")).status).toBe(200);
  expect(await (await api.get(CHECK, { headers: { "X-Forwarded-For": "198.19.0.1" } })).text()).toBe("true");
  for (const secret of secrets) expect(api.output()).not.toContain(secret);
  expect(api.output()).not.toMatch(/Unexpected error|unhandled|"level":[56]0/i);
  expect(third - second, `MB more, after ${second}`).toBeLessThan(MAX_GROWTH_MB);
  const samples = parseMetrics(await api.metrics());
  for (const route of routes) {
    const answered = findSamples(samples, "requests_total", { route }).filter(
      ({ labels, value }) => value > 0 && Number(labels.status) < 300,
    );
    expect(answered.length, `successful requests to ${route}`).toBeGreaterThan(0);
  }
});
