import { Agent, METHODS } from "node:http";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  AIRDROP,
  type Api,
  CHECK,
  COIN,
  FRIEND,
  GONE,
  GUEST,
  HOT,
  launchSampleApi,
  NFT,
  OTHER,
  readStart,
  VAULT,
} from "../support/api.ts";
import { type Answer, sendBytes, sendHttp } from "../support/http.ts";

const BATCHES = 320;
const BATCH_SIZE = 64;
const CONNECTIONS = 32;
const DEADLINE_MS = 5_000;

let api: Api;
let startedAt: string;
const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
beforeAll(async () => {
  // It warns of every request that fails on its side.
  api = await launchSampleApi({ LOG_LEVEL: "warn" });
  startedAt = await readStart(api);
});
afterAll(() => {
  agent.destroy();
  return api?.stop();
});

// What is asked.

type Kind = "boolean" | "balance" | "list";
type Operation = { path: string; kind: Kind; required: string[]; optional: string[] };
/** `kind`: of the answer that it has to get. Where there is none, it may also be refused. */
type Request = { method: string; path: string; headers: Record<string, string>; kind?: Kind };
type Pair = { name: string; value: string };

const check = (path: string, required: string, optional: string, kind: Kind = "boolean"): Operation => ({
  path: `/registry/${path}`,
  kind,
  required: required.split(" "),
  optional: optional.split(" "),
});

const CHECKS = [
  check("v1/check/all", "delegate vault", "chainId"),
  check("v1/check/contract", "delegate vault contract", "chainId"),
  check("v1/check/token", "delegate vault contract tokenId", "chainId"),
  check("v2/check/all", "to from", "chainId rights"),
  check("v2/check/contract", "to from contract", "chainId rights"),
  check("v2/check/erc721", "delegate vault contract tokenId", "chainId rights"),
  check("v2/check/erc1155", "delegate vault contract tokenId", "chainId rights numbers", "balance"),
  check("v2/check/erc20", "delegate vault contract", "chainId rights numbers", "balance"),
];

const hex = (digits: number) =>
  fc.bigInt(0n, 16n ** BigInt(digits) - 1n).map((n) => n.toString(16).padStart(digits, "0"));
const unicode = (maxLength: number) => fc.string({ unit: "binary", maxLength });
const latin1 = fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code));

const address = fc
  .tuple(
    fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom(VAULT, HOT, FRIEND, GUEST, GONE, OTHER, NFT, COIN) },
      { weight: 1, arbitrary: hex(40).map((digits) => `0x${digits}`) },
    ),
    fc.constantFrom(
      (text: string) => text,
      (text: string) => text.toLowerCase(),
      (text: string) => text.toUpperCase(),
    ),
  )
  .map(([text, spell]) => spell(text));

const uint256 = fc.oneof(fc.constantFrom(0n, 7n, 8520n, 2n ** 256n - 1n), fc.bigInt(0n, 2n ** 256n - 1n));

/** What each parameter may be. */
const GOOD: Record<string, fc.Arbitrary<string>> = {
  ...Object.fromEntries(["to", "from", "delegate", "vault", "contract"].map((name) => [name, address])),
  tokenId: fc.tuple(uint256, fc.boolean()).map(([id, isHex]) => (isHex ? `0x${id.toString(16)}` : `${id}`)),
  rights: fc.oneof(
    fc.constantFrom("", "0x", AIRDROP, "airdrop"),
    hex(64).map((digits) => `0x${digits}`),
    unicode(7).filter((text) => !/^0x/i.test(text)),
  ),
  chainId: fc.constantFrom("1", "137"),
  numbers: fc.constantFrom("number", "string"),
  details: fc.constantFrom("true", "false"),
  limit: fc.integer({ min: 1, max: 1000 }).map(String),
};
const goodValue = (name: string): fc.Arbitrary<string> => GOOD[name] ?? fc.constant("");

const percentEncode = (text: string) =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
const encoded = (text: fc.Arbitrary<string>): fc.Arbitrary<string> =>
  fc
    .tuple(text, fc.constantFrom(encodeURIComponent, encodeURIComponent, percentEncode))
    .map(([text, encode]) => encode(text));

/** What nobody should send, as it goes over the wire. */
const smallGarbage: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom("", "%", "%%", "%a", "%zz", "%00", "%0d%0a", "%ff", "%c0%80", "%ed%a0%80", "%u0061", "%!s(MISSING)"),
  fc.constantFrom("__proto__", "constructor", "toString", "hasOwnProperty", "[]", "null", "undefined", "NaN", "true"),
  fc.constantFrom("-1", "+1", "1.5", "1e309", "0x", "0xg", "0b1", "1n", `${2n ** 256n}`, "9".repeat(500), "99999999"),
  fc.constantFrom(
    "'%20or%201=1--",
    "';drop%20table%20x",
    "<script>",
    "$%7Bjndi:ldap://x%7D",
    "{{7*7}}",
    "../../etc/passwd",
  ),
  encoded(unicode(40)),
  encoded(address),
  fc.string({ maxLength: 40 }).map((text) => text.replaceAll(/[ #]/g, "+")),
);
const hugeGarbage: fc.Arbitrary<string> = fc
  .tuple(fc.integer({ min: 1, max: 10_000 }), fc.constantFrom("x", "0", "%", "%F0%9F%94%A5", "&to="))
  .map(([length, text]) => text.repeat(length).slice(0, length));
const garbage = fc.oneof({ weight: 12, arbitrary: smallGarbage }, { weight: 1, arbitrary: hugeGarbage });

const unknownName = fc.constantFrom(
  "_",
  "ref",
  "apiKey",
  "__proto__",
  "constructor",
  "0",
  "",
  "%zz",
  "%00",
  "chainid",
  "to[]",
);
const unknownPair: fc.Arbitrary<Pair> = fc.record({
  name: unknownName,
  value: smallGarbage.filter((value) => !value.includes("&")),
});

const write = (path: string, pairs: readonly Pair[]) =>
  `${path}${pairs.length > 0 ? "?" : ""}${pairs.map(({ name, value }) => `${name}=${value}`).join("&")}`;

const goodPair = (name: string): fc.Arbitrary<Pair> => encoded(goodValue(name)).map((value) => ({ name, value }));

const operation: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...CHECKS) },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.constantFrom("v1", "v2"), encoded(address)).map(
      ([version, wallet]): Operation => ({
        path: `/registry/${version}/${wallet}`,
        kind: "list",
        required: [],
        optional: ["chainId", "numbers", "details", "limit"],
      }),
    ),
  },
);

const question = operation.chain((asked) =>
  fc
    .tuple(
      fc.tuple(...asked.required.map(goodPair)),
      fc.subarray(asked.optional).chain((names) => fc.tuple(...names.map(goodPair))),
      fc.array(unknownPair, { maxLength: 3 }),
      fc.constantFrom("", "", "", "/"),
    )
    .chain(([required, optional, unknown, slash]) =>
      fc.record({
        path: fc.constant(`${asked.path}${slash}`),
        kind: fc.constant(asked.kind),
        pairs: fc.shuffledSubarray([...required, ...optional, ...unknown], {
          minLength: required.length + optional.length + unknown.length,
        }),
      }),
    ),
);

// The client refuses to send other letters.
const headerValue = fc.oneof(
  fc.string({ maxLength: 60 }),
  fc.string({ unit: latin1, maxLength: 60 }).map((text) => text.replaceAll(/[^\x20-\x7e\x80-\xff]/g, "?")),
  fc.constantFrom("*", "null", "close", "0", "-1", "application/json", "gzip", "bytes=0-0", "undefined", "127.0.0.1"),
);
/** Headers that change no answer. The body's length is the client's own affair. */
const harmlessHeaders = fc.dictionary(
  fc.constantFrom(
    ...[
      "Accept",
      "Accept-Encoding",
      "Accept-Language",
      "Authorization",
      "Cache-Control",
      "Cookie",
      "Forwarded",
      "Origin",
    ],
    ...[
      "Content-Type",
      "If-None-Match",
      "If-Modified-Since",
      "Range",
      "Referer",
      "TE",
      "User-Agent",
      "X-Forwarded-For",
    ],
    ...["X-Forwarded-Host", "X-HTTP-Method-Override", "X-Request-Id", "X-Original-URL", "constructor", "X-Unknown"],
    ...["Access-Control-Request-Method", "Access-Control-Request-Headers", "Expect", "Upgrade", "Via", "DNT"],
  ),
  headerValue,
  { maxKeys: 4 },
);
const headerFlood = fc.integer({ min: 1, max: 12_000 }).map((length) => ({ "X-Flood": "x".repeat(length) }));
const oddHeaders = fc
  .tuple(
    harmlessHeaders,
    fc.dictionary(fc.constantFrom("X-API-KEY", "Host", "Connection", "__proto__"), headerValue, { maxKeys: 1 }),
    fc.oneof({ weight: 30, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: headerFlood }),
  )
  .map(([harmless, odd, flood]) => ({ ...harmless, ...odd, ...flood }));

/**
 * Without HEAD, which wants no body: a request that cannot be read gets one, since then the server does not know the
 * method either.
 */
const method = fc.oneof(
  { weight: 12, arbitrary: fc.constant("GET") },
  { weight: 1, arbitrary: fc.constant("OPTIONS") },
  { weight: 1, arbitrary: fc.constantFrom(...METHODS.filter((method) => method !== "HEAD")) },
  { weight: 1, arbitrary: fc.constantFrom("get", "Post", "FETCH", "X", "__proto__", "GETT") },
);

const goodRequest: fc.Arbitrary<Request> = fc
  .record({
    question,
    method: fc.constantFrom("GET", "GET", "GET", "GET", "HEAD"),
    headers: harmlessHeaders,
  })
  .map(({ question: { path, pairs, kind }, method, headers }) => ({ method, path: write(path, pairs), headers, kind }));

/** A good question, in which some values are garbage, some pairs are missing, and some are there again. */
const spoiledRequest: fc.Arbitrary<Request> = fc
  .record({
    question,
    method,
    headers: oddHeaders,
    edits: fc.array(
      fc.record({
        index: fc.nat(20),
        value: garbage,
        how: fc.constantFrom("replace", "repeat", "append", "remove", "none"),
      }),
      { maxLength: 3 },
    ),
  })
  .map(({ question: { path, pairs }, method, headers, edits }) => {
    const edited = [...pairs];
    for (const { index, value, how } of edits) {
      const at = index % Math.max(1, edited.length);
      const pair = edited[at];
      if (!pair || how === "none") continue;
      if (how === "replace") edited[at] = { ...pair, value };
      if (how === "append") edited[at] = { ...pair, value: `${pair.value}${value}` };
      if (how === "repeat") edited.push({ ...pair, value: index % 2 ? value : pair.value });
      if (how === "remove") edited.splice(at, 1);
    }
    return { method, path: write(path, edited), headers };
  });

const segment = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom("registry", "v1", "v2", "v3", "check", "all", "contract", "erc20", "token") },
  {
    weight: 1,
    arbitrary: fc.constantFrom("", ".", "..", "%2e%2e", "%2f", "%5c", ";", ":wallet", "*", "{wallet}", VAULT),
  },
  { weight: 1, arbitrary: garbage },
);
const strayRequest: fc.Arbitrary<Request> = fc
  .record({
    method,
    headers: oddHeaders,
    segments: fc.array(segment, { maxLength: 6 }),
    start: fc.constantFrom("/", "/", "/registry/v2/", "/registry/v1/", "//", "", "http://api.example/", "*"),
    query: fc.array(fc.oneof(unknownPair, goodPair("chainId"), goodPair("to")), { maxLength: 3 }),
  })
  .map(({ method, headers, segments, start, query }) => ({
    method,
    headers,
    path: write(`${start}${segments.join("/")}`, query) || "/",
  }));

/** A list from a place that may or may not exist: what a cursor says today, and what it never says. */
const pagedRequest: fc.Arbitrary<Request> = fc
  .record({
    version: fc.constantFrom("v1", "v2"),
    wallet: address,
    limit: fc.oneof(goodValue("limit"), garbage),
    direction: fc.constantFrom("incoming", "outgoing", "sideways"),
    block: fc.oneof(fc.bigInt(0n, 30n), fc.bigInt(0n, 10n ** 19n)),
    logIndex: fc.oneof(fc.constant(0), fc.integer({ min: -1, max: 10 ** 10 })),
    stray: fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: garbage }),
  })
  .map(({ version, wallet, limit, direction, block, logIndex, stray }) => {
    const place = `${version}.1.${wallet.toLowerCase()}.${direction}.${block}.${logIndex}`;
    const cursor = stray ?? Buffer.from(place).toString("base64url");
    return { method: "GET", path: `/registry/${version}/${wallet}?limit=${limit}&cursor=${cursor}`, headers: {} };
  });

/** Bytes that a client would not send. A line break would make it two requests. */
const rawRequest: fc.Arbitrary<Request> = fc
  .record({
    bytes: fc.string({ unit: latin1, minLength: 1, maxLength: 40 }).map((text) => text.replaceAll(/[\r\n]/g, "\0")),
    place: fc.constantFrom("/", "/registry/v2/", `/registry/v2/${VAULT}?x=`, `/registry/v2/check/all?to=${HOT}&from=`),
  })
  .map(({ bytes, place }) => ({ method: "GET", path: `${place}${bytes}`, headers: {} }));

/** What a proxy would be asked: in the place of the URL stands a host. */
const connectRequest: fc.Arbitrary<Request> = fc.record({
  method: fc.constant("CONNECT"),
  path: fc.oneof(fc.constantFrom("api.example:443", "127.0.0.1:5432", "[::1]:80", "api.example"), garbage),
  headers: oddHeaders,
});

const anyRequest = fc.oneof(
  { weight: 8, arbitrary: goodRequest },
  { weight: 8, arbitrary: spoiledRequest },
  { weight: 4, arbitrary: strayRequest },
  { weight: 1, arbitrary: pagedRequest },
  { weight: 1, arbitrary: rawRequest },
  { weight: 1, arbitrary: connectRequest },
);

// What comes back.

/** Letters that Node's client refuses to put into a URL. */
const UNSENDABLE = /[^\x21-\xff]/;

const send = ({ method, path, headers }: Request): Promise<Answer> => {
  const signal = AbortSignal.timeout(DEADLINE_MS);
  // Node's client would take the answer to a CONNECT for a tunnel.
  if (method !== "CONNECT" && !UNSENDABLE.test(path)) {
    return sendHttp(api.port, { method, path, headers, agent, signal });
  }
  const lines = Object.entries({ Host: "api.example", ...headers, Connection: "close" });
  const head = [`${method} ${path} HTTP/1.1`, ...lines.map(([name, value]) => `${name}: ${value}`), "", ""];
  return sendBytes(api.port, Buffer.from(head.join("\r\n"), "latin1"), signal);
};

const BODIES: Record<Kind, RegExp> = {
  boolean: /^(true|false)$/,
  balance: /^(0|[1-9]\d*|"(0|[1-9]\d*)")$/,
  list: /^\[.*\]$/,
};
const REFUSALS = [400, 401, 404, 405, 414, 431];
const FRESHNESS = ["x-indexed-block", "x-indexed-block-timestamp", "x-finalized-block"];

/** What is wrong with an answer, if anything is. */
const complain = ({ method, kind }: Request, { status, headers, body }: Answer): string | null => {
  if (headers["access-control-allow-origin"] !== "*") return "not every origin may read it";
  if (method === "OPTIONS" && status === 204) return body === "" ? null : "it has a body";
  if (status === 200) {
    // The page at the root: a path that is nothing but slashes and dots leads there.
    if (headers["content-type"] === "text/html; charset=utf-8") {
      return headers["content-security-policy"] ? null : "a page of it has no policy";
    }
    if (headers["content-type"] !== "application/json") return "it is not JSON";
    if (!FRESHNESS.every((name) => /^\d+$/.test(String(headers[name]))))
      return "it does not say at which block it is true";
    if (method === "HEAD") return body === "" ? null : "it has a body";
    const kinds: Kind[] = kind ? [kind] : ["boolean", "balance", "list"];
    if (!kinds.some((kind) => BODIES[kind].test(body))) return "its body is none of the documented ones";
    return Array.isArray(JSON.parse(body)) === body.startsWith("[") ? null : "its list is none";
  }
  if (kind) return "a good question is not answered";
  if (!REFUSALS.includes(status)) return "its status is not documented";
  if (headers["content-type"] !== "application/problem+json") return "it is not a problem document";
  if (status === 405 && headers.allow !== "GET, HEAD, OPTIONS") return "it does not say what is allowed";
  const { type, title, detail, errors, ...rest } = JSON.parse(body);
  if (![type, title, detail].every((text) => typeof text === "string" && text !== ""))
    return "it does not say what is wrong";
  if (rest.status !== status) return "it tells another status";
  const isNamed = type === "/docs#problem-bad-parameter";
  return isNamed === (Array.isArray(errors) && errors.length > 0) ? null : "it does not name what is bad";
};

test("any request is answered within 5 s: with a documented answer, or with a problem that says why not", async () => {
  const counts: Record<number, number> = {};

  const ask = async (asked: Request) => {
    const answer = await send(asked).catch((error: Error) => error);
    const complaint = answer instanceof Error ? `no answer: ${answer.message}` : complain(asked, answer);
    if (complaint !== null || answer instanceof Error) {
      const shown = [asked, answer].map((value) => JSON.stringify(value).slice(0, 2000));
      throw new Error(`${complaint}\n  asked: ${shown[0]}\n  answer: ${shown[1]}`);
    }
    counts[answer.status] = (counts[answer.status] ?? 0) + 1;
  };
  const batches = fc.array(anyRequest, { minLength: BATCH_SIZE, maxLength: BATCH_SIZE });
  const property = fc.asyncProperty(batches, async (batch) => {
    await Promise.all(batch.map(ask));
  });
  // The complaint names the request: there is nothing to shrink.
  const { failed, seed, errorInstance } = await fc.check(property, { numRuns: BATCHES, endOnFailure: true });
  if (failed) throw new Error(`The seed is ${seed}.`, { cause: errorInstance });

  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  console.log(`Answers to ${total} requests, by status:`, counts);
  expect(total).toBeGreaterThanOrEqual(20_000);
  expect(counts[200], "enough of them are questions that can be answered").toBeGreaterThan(total / 10);
  expect(Object.keys(counts).map(Number), "every refusal is among them").toEqual([200, 204, ...REFUSALS]);
});

test("afterwards the process is the same, answers, and has nothing to report", async () => {
  expect(await readStart(api)).toBe(startedAt);
  const response = await api.get(CHECK);
  expect(await response.text()).toBe("true");
  expect(api.output()).toBe("");
});
