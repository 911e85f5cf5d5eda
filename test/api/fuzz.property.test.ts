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
  VAULT,
} from "../support/api.ts";
import { type HttpAnswer, sendBytes, sendHttp } from "../support/http.ts";
import { PROPERTY_RUNS } from "../support/random.ts";

const BATCH_SIZE = 50;
const CONNECTIONS = 32;
const DEADLINE_MS = 5_000;

let api: Api;
const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
beforeAll(async () => {
  // The API logs a warning for every failure on its side.
  api = await launchSampleApi({ LOG_LEVEL: "warn" });
});
afterAll(() => {
  agent.destroy();
  return api?.stop();
});

// Requests.

type Kind = "boolean" | "balance" | "list" | "page";
type Pair = { name: string; value: string };
type Operation = { path: string; kind: Kind; required: string[]; optional: string[] };
/** A request with a `kind` is valid, and must get an answer of that kind. Any other may be refused. */
type Request = { method: string; path: string; headers: Record<string, string>; kind?: Kind };

const operation = (path: string, required: string, optional: string, kind: Kind = "boolean"): Operation => ({
  path: kind === "page" ? `/wallets/${path}` : `/registry/${path}`,
  kind,
  required: required.split(" ").filter(Boolean),
  optional: optional.split(" "),
});

const CHECKS = [
  operation("v1/check/all", "delegate vault", "chainId"),
  operation("v1/check/contract", "delegate vault contract", "chainId"),
  operation("v1/check/token", "delegate vault contract tokenId", "chainId"),
  operation("v2/check/all", "to from", "chainId rights"),
  operation("v2/check/contract", "to from contract", "chainId rights"),
  operation("v2/check/erc721", "delegate vault contract tokenId", "chainId rights"),
  operation("v2/check/erc1155", "delegate vault contract tokenId", "chainId rights numbers", "balance"),
  operation("v2/check/erc20", "delegate vault contract", "chainId rights numbers", "balance"),
];

/** Picks one of several arbitraries by weight. */
const weighted = <T>(...choices: [weight: number, arbitrary: fc.Arbitrary<T>][]) =>
  fc.oneof(...choices.map(([weight, arbitrary]) => ({ weight, arbitrary })));
const words = (text: string) => fc.constantFrom(...text.split(" "));

const hex = (digits: number) =>
  fc.bigInt(0n, 16n ** BigInt(digits) - 1n).map((number) => `0x${number.toString(16).padStart(digits, "0")}`);
const unicode = (maxLength: number) => fc.string({ unit: "binary", maxLength });
const latin1 = fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code));

const address = fc
  .tuple(
    weighted([4, fc.constantFrom(VAULT, HOT, FRIEND, GUEST, GONE, OTHER, NFT, COIN)], [1, hex(40)]),
    fc.integer({ min: 0, max: 2 }),
  )
  .map(([text, how]) => [text, text.toLowerCase(), text.toUpperCase()][how] ?? text);
const uint256 = fc.oneof(fc.constantFrom(0n, 7n, 8520n, 2n ** 256n - 1n), fc.bigInt(0n, 2n ** 256n - 1n));

/** Good values of each parameter that is not an address. */
const GOOD: Record<string, fc.Arbitrary<string>> = {
  tokenId: fc.tuple(uint256, fc.boolean()).map(([id, isHex]) => (isHex ? `0x${id.toString(16)}` : `${id}`)),
  rights: fc.oneof(
    fc.constantFrom("", "0x", AIRDROP, "airdrop"),
    hex(64),
    unicode(7).filter((text) => !/^0x/i.test(text)),
  ),
  chainId: words("1 137"),
  numbers: words("number string"),
  details: words("true false"),
  limit: fc.integer({ min: 1, max: 1000 }).map(String),
  registry: words("v1 v2 both"),
  partial: words("true false"),
  direction: words("incoming outgoing"),
  timestamp: words("0 1 1500000000"),
};

const percentEncode = (text: string) =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
const encoded = (text: fc.Arbitrary<string>) =>
  fc.tuple(text, fc.nat(2)).map(([text, how]) => (how === 0 ? percentEncode(text) : encodeURIComponent(text)));

/** Encoded values, as sent. */
const smallGarbage = fc.oneof(
  words(" % %% %a %zz %00 %0d%0a %ff %c0%80 %ed%a0%80 %u0061 %!s(MISSING)"),
  words("__proto__ constructor toString hasOwnProperty [] null undefined NaN true"),
  words(`-1 +1 1.5 1e309 0x 0xg 0b1 1n ${2n ** 256n} ${"9".repeat(500)} 99999999`),
  words("'%20or%201=1-- ';drop%20table%20x <script> $%7Bjndi:ldap://x%7D {{7*7}} ../../etc/passwd"),
  encoded(unicode(40)),
  encoded(address),
  fc.string({ maxLength: 40 }).map((text) => text.replaceAll(/[ #]/g, "+")),
);
const hugeGarbage = fc
  .tuple(fc.integer({ min: 1, max: 10_000 }), words("x 0 % %F0%9F%94%A5 &to="))
  .map(([length, text]) => text.repeat(length).slice(0, length));
const garbage = weighted([6, smallGarbage], [1, hugeGarbage]);

const unknownPair: fc.Arbitrary<Pair> = fc.record({
  name: words("_ ref apiKey __proto__ constructor 0  %zz %00 chainid to[]"),
  value: smallGarbage.filter((value) => !value.includes("&")),
});
const goodPair = (name: string): fc.Arbitrary<Pair> => encoded(GOOD[name] ?? address).map((value) => ({ name, value }));

const write = (path: string, pairs: readonly Pair[]) =>
  `${path}${pairs.length > 0 ? "?" : ""}${pairs.map(({ name, value }) => `${name}=${value}`).join("&")}`;

const list = fc
  .tuple(words("v1 v2"), encoded(address))
  .map(([version, wallet]) => operation(`${version}/${wallet}`, "", "chainId numbers details limit", "list"));

const SCOPES = ["", "contract", "contract tokenId"];
const page = fc
  .tuple(encoded(address), words("vaults delegates delegations history"), fc.constantFrom(...SCOPES))
  .map(([wallet, name, scope]) => {
    const optional = "chainId registry limit partial timestamp";
    if (name === "delegations") return operation(`${wallet}/${name}`, "", `${optional} direction`, "page");
    if (name === "history") return operation(`${wallet}/${name}`, "", optional, "page");
    return operation(`${wallet}/${name}`, scope, `${optional} rights`, "page");
  });

const question = weighted([3, fc.constantFrom(...CHECKS)], [1, list], [2, page]).chain(
  ({ path, kind, required, optional }) =>
    fc
      .tuple(
        fc.subarray(optional).chain((names) => fc.tuple(...[...required, ...names].map(goodPair))),
        fc.array(unknownPair, { maxLength: 3 }),
        fc.constantFrom("", "", "", "/"),
      )
      .chain(([known, unknown, slash]) => {
        const all = [...known, ...unknown];
        const pairs = fc.shuffledSubarray(all, { minLength: all.length });
        return pairs.map((pairs) => ({ path: `${path}${slash}`, kind, pairs }));
      }),
);

// Node's client refuses other characters.
const headerValue = fc.oneof(
  fc.string({ maxLength: 60 }),
  fc.string({ unit: latin1, maxLength: 60 }).map((text) => text.replaceAll(/[^\x20-\x7e\x80-\xff]/g, "?")),
  words("* null close 0 -1 application/json gzip bytes=0-0 undefined 127.0.0.1"),
);
/** Headers that change no answer. The client sets Content-Length itself. */
const harmlessHeaders = fc.dictionary(
  words(
    "Accept Accept-Encoding Accept-Language Authorization Cache-Control Cookie Forwarded Origin Content-Type " +
      "If-None-Match If-Modified-Since Range Referer TE User-Agent X-Forwarded-For X-Forwarded-Host " +
      "X-HTTP-Method-Override X-Request-Id X-Original-URL constructor X-Unknown Access-Control-Request-Method " +
      "Access-Control-Request-Headers Expect Upgrade Via DNT",
  ),
  headerValue,
  { maxKeys: 4 },
);
const oddHeaders = fc
  .tuple(
    harmlessHeaders,
    fc.dictionary(words("X-API-KEY Host Connection __proto__"), headerValue, { maxKeys: 1 }),
    weighted<Record<string, string>>(
      [15, fc.constant({})],
      [1, fc.integer({ min: 1, max: 12_000 }).map((length) => ({ "X-Flood": "x".repeat(length) }))],
    ),
  )
  .map(([harmless, odd, flood]) => ({ ...harmless, ...odd, ...flood }));

/** Without HEAD: a response to a malformed request has a body, since its method is unknown. */
const method = weighted(
  [12, fc.constant("GET")],
  [1, fc.constant("OPTIONS")],
  [1, fc.constantFrom(...METHODS.filter((method) => method !== "HEAD" && method !== "CONNECT"))],
  [1, words("get Post FETCH X __proto__ GETT")],
);

const goodRequest: fc.Arbitrary<Request> = fc
  .record({ question, method: words("GET GET GET GET HEAD"), headers: harmlessHeaders })
  .map(({ question: { path, pairs, kind }, ...rest }) => ({ ...rest, path: write(path, pairs), kind }));

/** A good question with some values replaced by garbage, and some pairs missing or repeated. */
const spoiledRequest: fc.Arbitrary<Request> = fc
  .record({
    question,
    method,
    headers: oddHeaders,
    edits: fc.array(fc.record({ index: fc.nat(20), value: garbage, how: words("replace repeat append remove none") }), {
      maxLength: 3,
    }),
  })
  .map(({ question: { path, pairs }, method, headers, edits }) => {
    const edited = [...pairs];
    for (const { index, value, how } of edits) {
      const at = index % Math.max(1, edited.length);
      const pair = edited[at];
      if (!pair) continue;
      if (how === "replace") edited[at] = { ...pair, value };
      if (how === "append") edited[at] = { ...pair, value: `${pair.value}${value}` };
      if (how === "repeat") edited.push({ ...pair, value: index % 2 ? value : pair.value });
      if (how === "remove") edited.splice(at, 1);
    }
    return { method, path: write(path, edited), headers };
  });

const segment = weighted(
  [3, words("registry v1 v2 v3 check all contract erc20 token wallets vaults history")],
  [1, words(` . .. %2e%2e %2f %5c ; :wallet * {wallet} ${VAULT}`)],
  [1, garbage],
);
const strayRequest: fc.Arbitrary<Request> = fc
  .record({
    method,
    headers: oddHeaders,
    segments: fc.array(segment, { maxLength: 6 }),
    start: words("/ / /registry/v2/ /registry/v1/ /wallets/ //  http://api.example/ *"),
    query: fc.array(fc.oneof(unknownPair, goodPair("chainId"), goodPair("to")), { maxLength: 3 }),
  })
  .map(({ segments, start, query, ...rest }) => ({
    ...rest,
    path: write(`${start}${segments.join("/")}`, query) || "/",
  }));

/** A page of a wallet, from a cursor that may be valid. */
const walletPageRequest: fc.Arbitrary<Request> = fc
  .record({
    name: words("vaults delegates delegations history"),
    wallet: address,
    cursor: fc.oneof(garbage, encoded(unicode(60))),
  })
  .map(({ name, wallet, cursor }) => ({
    method: "GET",
    path: `/wallets/${wallet}/${name}?cursor=${cursor}`,
    headers: {},
  }));

/** A page of a list, from a valid or an invalid cursor. */
const pagedRequest: fc.Arbitrary<Request> = fc
  .record({
    version: words("v1 v2"),
    wallet: address,
    limit: fc.oneof(GOOD.limit ?? garbage, garbage),
    direction: words("incoming outgoing sideways"),
    block: fc.oneof(fc.bigInt(0n, 30n), fc.bigInt(0n, 10n ** 19n)),
    logIndex: fc.oneof(fc.constant(0), fc.integer({ min: -1, max: 10 ** 10 })),
    stray: weighted([3, fc.constant("")], [1, garbage]),
  })
  .map(({ version, wallet, limit, direction, block, logIndex, stray }) => {
    const place = `${version}.1.${wallet.toLowerCase()}.${direction}.${block}.${logIndex}`;
    const cursor = stray || Buffer.from(place).toString("base64url");
    return { method: "GET", path: `/registry/${version}/${wallet}?limit=${limit}&cursor=${cursor}`, headers: {} };
  });

/** Bytes that no client sends, without line breaks, which would make two requests. */
const rawRequest: fc.Arbitrary<Request> = fc
  .tuple(
    words(`/ /registry/v2/ /registry/v2/${VAULT}?x= /registry/v2/check/all?to=${HOT}&from=`),
    fc.string({ unit: latin1, minLength: 1, maxLength: 40 }).map((text) => text.replaceAll(/[\r\n]/g, "\0")),
  )
  .map(([place, bytes]) => ({ method: "GET", path: `${place}${bytes}`, headers: {} }));

const anyRequest = weighted(
  [8, goodRequest],
  [8, spoiledRequest],
  [4, strayRequest],
  [1, pagedRequest],
  [1, walletPageRequest],
  [1, rawRequest],
);

// Answers.

/** Characters that Node's client refuses in a URL. */
const UNSENDABLE = /[^\x21-\xff]/;

const send = ({ method, path, headers }: Request): Promise<HttpAnswer> => {
  const signal = AbortSignal.timeout(DEADLINE_MS);
  if (!UNSENDABLE.test(path)) return sendHttp(api.port, { method, path, headers, agent, signal });
  const lines = Object.entries({ Host: "api.example", ...headers, Connection: "close" });
  const head = [`${method} ${path} HTTP/1.1`, ...lines.map(([name, value]) => `${name}: ${value}`), "", ""];
  return sendBytes(api.port, Buffer.from(head.join("\r\n"), "latin1"), signal);
};

const BODIES: Record<Kind, RegExp> = {
  boolean: /^(true|false)$/,
  balance: /^(0|[1-9]\d*|"(0|[1-9]\d*)")$/,
  list: /^\[.*\]$/,
  page: /^\{"wallet":"0x.*"blocks":\{.*"unanswered":\[\],"next":.*\}$/,
};
const REFUSALS = [400, 401, 404, 405, 414, 431];
const FRESHNESS = ["x-indexed-block", "x-indexed-block-timestamp", "x-finalized-block"];

/** Describes the fault of a response; null if it has none. */
const findFault = ({ method, kind }: Request, { status, headers, body }: HttpAnswer): string | null => {
  if (headers["access-control-allow-origin"] !== "*") return "not every origin may read it";
  if (method === "OPTIONS" && status === 204) return body === "" ? null : "it has a body";
  if (status === 200) {
    // A path of slashes and dots returns the root page.
    if (headers["content-type"] === "text/html; charset=utf-8") {
      return headers["content-security-policy"] ? null : "the page has no policy";
    }
    if (headers["content-type"] !== "application/json") return "it is not JSON";
    const isPage = kind ? kind === "page" : body.startsWith("{");
    if (!isPage && !FRESHNESS.every((name) => /^\d+$/.test(String(headers[name])))) return "it does not say its block";
    if (method === "HEAD") return body === "" ? null : "it has a body";
    const kinds: Kind[] = kind ? [kind] : ["boolean", "balance", "list", "page"];
    if (!kinds.some((kind) => BODIES[kind].test(body))) return "its body is none of the documented ones";
    return Array.isArray(JSON.parse(body)) === body.startsWith("[") ? null : "its list is no list";
  }
  if (kind) return "a good question is not answered";
  // A page that the client has in its cache.
  if (status === 304 && body === "" && headers.etag) return null;
  if (!REFUSALS.includes(status)) return "its status is not documented";
  if (headers["content-type"] !== "application/problem+json") return "it is not a problem document";
  if (status === 405 && headers.allow !== "GET, HEAD, OPTIONS") return "it does not list the allowed methods";
  const { type, title, detail, errors, ...rest } = JSON.parse(body);
  if (![type, title, detail].every((text) => typeof text === "string" && text !== "")) return "it does not say why";
  if (rest.status !== status) return "its body has another status";
  const isNamed = type === "/docs#problem-bad-parameter";
  return isNamed === (Array.isArray(errors) && errors.length > 0) ? null : "it does not list the bad parameters";
};

test(`${PROPERTY_RUNS} random requests return a documented answer or a problem document within 5 s each`, async () => {
  const counts: Record<number, number> = {};
  const ask = async (asked: Request) => {
    const answer = await send(asked).catch((error: Error) => error);
    const complaint = answer instanceof Error ? `no answer: ${answer.message}` : findFault(asked, answer);
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
  // The error shows the request, so that shrinking is not needed.
  const options = { numRuns: PROPERTY_RUNS / BATCH_SIZE, endOnFailure: true };
  const { failed, seed, errorInstance } = await fc.check(property, options);
  if (failed) throw new Error(`The seed is ${seed}.`, { cause: errorInstance });

  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  expect(total).toBe(PROPERTY_RUNS);
  expect(counts[200], "questions that can be answered").toBeGreaterThan(total / 10);
  expect(Object.keys(counts).map(Number), "every refusal is among them").toEqual(
    expect.arrayContaining([200, 204, ...REFUSALS]),
  );

  expect(await (await api.get(CHECK)).text()).toBe("true");
  expect(api.output(), "the log has no warning").toBe("");
});
