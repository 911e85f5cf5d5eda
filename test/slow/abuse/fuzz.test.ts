import { Agent } from "node:http";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { PROBLEMS, type ProblemName } from "../../../api/problem.ts";
import { findFreePort } from "../../../process/ports.ts";
import { type ApiProcess, CHECK, createSampleDatabase, FRESH_FOR_A_DAY, launchApiProcess } from "../../support/api.ts";
import { type HttpAnswer, sendHttp } from "../../support/http.ts";
import { addKey, extractSecret, revokeAddedKey } from "../../support/keys.ts";
import { findSamples, parseMetrics } from "../../support/metrics.ts";
import { createWallet, Visitor } from "../../support/portal.ts";
import { readResidentMb } from "../../support/processes.ts";
import { type Random, seededRandom } from "../../support/random.ts";
import { createRequests, type FuzzRequest, type Session, type Surface } from "./random-requests.ts";

// Random requests to every route, from callers with valid and invalid sessions and keys, behind odd proxies. Nothing but
// a documented answer may come back, and the process may not grow.

const REQUESTS = Number(process.env.FUZZ_REQUESTS ?? 100_000);
const CONNECTIONS = 32;
const DEADLINE_MS = 10_000;
const MAX_GROWTH_MB = 30;

let databaseUrl: string;
let database: pg.Pool;
let api: ApiProcess;
const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
beforeAll(async () => {
  databaseUrl = await createSampleDatabase();
  database = new pg.Pool({ connectionString: databaseUrl, max: 1 });
  const port = await findFreePort();
  const env = {
    ...FRESH_FOR_A_DAY,
    PORT: String(port),
    PUBLIC_URL: `http://127.0.0.1:${port}`,
    TRUST_PROXY: "127.0.0.1",
    RATE_LIMIT_REQUESTS: "10",
    RATE_LIMIT_WINDOW_SECONDS: "1",
    LOG_LEVEL: "warn",
    // A small heap, so that garbage is collected and only leaks remain.
    NODE_OPTIONS: "--max-old-space-size=120",
  };
  api = await launchApiProcess({ databaseUrl, env });
});
afterAll(async () => {
  agent.destroy();
  await api?.stop();
  await database?.end();
});

let visitors = 0;
/** Signs a visitor in, and again if the service is too busy for it. */
const signIn = async (tries = 5): Promise<Session> => {
  try {
    return await trySignIn();
  } catch (error) {
    if (tries === 1) throw new Error(`Signing in failed five times: ${api.output()}`, { cause: error });
    await sleep(1_000);
    return signIn(tries - 1);
  }
};

/** Signs a visitor in, from an address of its own, and makes a key. */
const trySignIn = async (): Promise<Session> => {
  const [visitor, wallet] = [new Visitor(api), createWallet()];
  const headers = { "X-Forwarded-For": `198.18.${++visitors >> 8}.${visitors & 255}` };
  const message = await visitor.begin(wallet.address, 1, headers);
  const signature = await wallet.signMessage({ message });
  const signedIn = await visitor.finish(message, signature, headers);
  const made = await visitor.send<{ prefix: string }>("keys", { method: "POST", body: { name: "fuzz" }, headers });
  if (made.status !== 201) throw new Error(`${signedIn.status} ${signedIn.body}, ${made.status} ${made.body}`);
  const cookie = visitor.cookieHeader.split("; ").find((each) => each.includes("session=")) ?? "";
  return { cookie, prefix: made.json.prefix };
};

const expire = ({ cookie }: Session) =>
  database.query(
    "update service.session set expires_at = now() where token = encode(sha256(convert_to($1, 'UTF8')), 'hex')",
    [cookie.split("=")[1]],
  );

/** Expires a session of the surface, and signs somebody else in. */
const renewSession = async (surface: Surface, index: number): Promise<void> => {
  const expired = surface.sessions[index] ?? surface.sessions[0];
  surface.sessions[index] = await signIn();
  await expire(expired);
  surface.endedSessions[1] = expired;
};

const prepareSurface = async (): Promise<Surface> => {
  const makeKeys = async (): Promise<[string, ...string[]]> => [
    (await addKey(database)).key,
    (await addKey(database)).key,
  ];
  const [validKeys, revokedKeys] = [await makeKeys(), await makeKeys()];
  for (const key of revokedKeys) await revokeAddedKey(database, key);
  const endedSessions: [Session, Session] = [await signIn(), await signIn()];
  await sendHttp(api.port, {
    method: "DELETE",
    path: "/developers/api/session",
    headers: { Cookie: endedSessions[0].cookie, Origin: api.url },
  });
  await expire(endedSessions[1]);
  const sessions: [Session, ...Session[]] = [await signIn()];
  while (sessions.length < 8) sessions.push(await signIn());
  const pages = await Promise.all(
    ["/", "/insights", "/docs", "/developers"].map(async (path) => (await api.get(path)).text()),
  );
  const assets = pages.flatMap((html) => [...html.matchAll(/\/assets\/([\w.-]+)/g)].map(([, file = ""]) => file));
  const routes = findSamples(parseMetrics(await api.metrics()), "request_duration_seconds_count").map(
    ({ labels }) => labels.route ?? "",
  );
  return {
    origin: api.url,
    routes: routes.filter((route) => route !== "unknown") as [string, ...string[]],
    assets: assets as [string, ...string[]],
    validKeys,
    revokedKeys,
    endedSessions,
    sessions,
  };
};

// Answers.

const STATUSES = new Set<number>([200, 201, 204, 304, ...Object.values(PROBLEMS).map(({ status }) => status)]);
const HEADERS = new Set(
  (
    "access-control-allow-headers access-control-allow-methods access-control-allow-origin access-control-expose-headers " +
    "access-control-max-age age allow cache-control connection content-encoding content-length content-security-policy " +
    "content-type cross-origin-resource-policy date etag keep-alive link ratelimit ratelimit-policy referrer-policy " +
    "retry-after set-cookie transfer-encoding vary x-answered-block x-answered-block-final x-content-type-options " +
    "x-finalized-block x-indexed-block x-indexed-block-timestamp x-request-id"
  ).split(" "),
);
const STACK_TRACE = /\n\s+at |node:internal|node_modules|\.[jt]s:\d+|Error: /;

const isDocumented = (status: number) => STATUSES.has(status) && (status < 500 || status === 503);

/** Describes the fault of a response; null if it has none. */
const findFault = (
  sent: FuzzRequest,
  { status, headers, body }: HttpAnswer,
  secrets: readonly string[],
): string | null => {
  if (!isDocumented(status)) return "its status is not documented";
  const unknown = Object.keys(headers).find((name) => !HEADERS.has(name));
  if (unknown !== undefined) return `it has the header ${unknown}`;
  if (!/^[\w\-=]{1,255}$/.test(String(headers["x-request-id"] ?? "none"))) return "its request id is odd";
  if (headers["set-cookie"] && (headers["access-control-allow-origin"] || headers["cache-control"] !== "no-store")) {
    return "others may read or keep its cookie";
  }
  const isPage = String(headers["content-type"]).startsWith("text/") || headers["content-encoding"];
  if (!isPage && STACK_TRACE.test(body)) return "it has a stack trace";
  if (secrets.some((secret) => body.includes(secret))) return "it has a secret";
  if (status < 400) return findUndueAnswer(sent, status, body);
  if (headers["content-type"] !== "application/problem+json") return "it is not a problem document";
  if (sent.method === "HEAD") return null;
  const { type, title, status: told, detail } = JSON.parse(body);
  const name = /^\/docs#problem-([a-z-]+)$/.exec(type)?.[1] as ProblemName;
  if (PROBLEMS[name]?.status !== status || PROBLEMS[name].title !== title || told !== status)
    return "its problem is unknown";
  if (typeof detail !== "string" || detail === "") return "it does not say why";
  return status === 503 && !headers["retry-after"] ? "it does not say when to try again" : null;
};

/** Describes an answer that the sender has no right to. */
const findUndueAnswer = (
  { method, path, isSignedIn, hasBadKey }: FuzzRequest,
  status: number,
  body: string,
): string | null => {
  if (method === "OPTIONS") return null;
  if (hasBadKey && /^\/(registry\/(v2\/|checks)|wallets\/)/.test(path)) return "a bad key is accepted";
  if (isSignedIn || !path.startsWith("/developers/api/")) return null;
  if (path.startsWith("/developers/api/keys")) return "an ended session is accepted";
  return method === "GET" && status === 200 && JSON.parse(body).session !== null
    ? "an ended session is accepted"
    : null;
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

const ask = async (sent: FuzzRequest, secrets: readonly string[]): Promise<void> => {
  const { method, path, body } = sent;
  // Node's client would send the body of some methods without its length.
  const headers = body === "" ? sent.headers : { ...sent.headers, "Content-Length": Buffer.byteLength(body) };
  const send = (over: Agent | false) => {
    const signal = AbortSignal.timeout(DEADLINE_MS);
    return sendHttp(api.port, { method, path, headers, agent: over, signal }, body);
  };
  try {
    // The server may close a kept-alive connection at any time. A new one must get an answer.
    const answer = await send(agent).catch(() => send(false));
    count(answer.status);
    const fault = findFault(sent, answer, secrets);
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
const sendRaw = (bytes: string, ending: Ending) =>
  new Promise<string>((resolve) => {
    let answer = "";
    const socket = connect({ port: api.port, host: "127.0.0.1" });
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

/** Sends requests as raw bytes: pipelined, half-closed, cut off, with bytes changed, or malformed from the start. */
const askRaw = async (random: Random, requests: readonly FuzzRequest[], secrets: readonly string[]): Promise<void> => {
  const how = random.pick(["whole", "half-closed", "cut", "changed", "odd"]);
  let bytes = requests
    .map((each, index) => {
      const isLast = how === "whole" && index === requests.length - 1;
      return writeRequest(isLast ? { ...each, headers: { ...each.headers, Connection: "close" } } : each);
    })
    .join("");
  const at = random.integer(0, bytes.length);
  if (how === "cut") bytes = bytes.slice(0, at);
  if (how === "changed")
    bytes = `${bytes.slice(0, at)}${String.fromCharCode(random.integer(0, 255))}${bytes.slice(at + 1)}`;
  if (how === "odd") bytes = `${random.pick(STARTS)}${random.pick(ODD_LINES)}`;
  const isDropped = how === "cut" && random.chance(0.5);
  const answer = await sendRaw(bytes, how === "whole" ? "wait" : isDropped ? "close" : "half-close");
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
}, async () => {
  const random = seededRandom(import.meta.filename);
  const surface = await prepareSurface();
  const nextRequest = createRequests(random, surface);
  const secrets = [...surface.validKeys, ...surface.revokedKeys].map(extractSecret);
  secrets.push(...surface.endedSessions.map(({ cookie }) => cookie.split("=")[1] ?? ""), new URL(databaseUrl).password);
  const thirds: number[][] = [[], [], []];
  let sent = 0;

  const work = async () => {
    while (sent < REQUESTS && faults.length < 10) {
      thirds[Math.floor((3 * sent) / REQUESTS)]?.push(readResidentMb(api.pid));
      // Requests end some of the sessions.
      const renewed = random.chance(0.005) ? random.integer(0, surface.sessions.length - 1) : null;
      const pipelined = random.chance(0.1) ? random.integer(1, 10) : 0;
      sent += pipelined || 1;
      if (renewed !== null) await renewSession(surface, renewed);
      else if (pipelined === 0) await ask(nextRequest(), secrets);
      else await askRaw(random, Array.from({ length: pipelined }, nextRequest), secrets);
    }
  };
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: CONNECTIONS }, work));
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
  for (const route of surface.routes) {
    const answered = findSamples(samples, "requests_total", { route }).filter(
      ({ labels, value }) => value > 0 && Number(labels.status) < 300,
    );
    expect(answered.length, `successful requests to ${route}`).toBeGreaterThan(0);
  }
});
