import { METHODS } from "node:http";
import fc from "fast-check";
import { AIRDROP, COIN, FRIEND, GONE, GUEST, HOT, NFT, OTHER, VAULT } from "./api.ts";
import { isArray, isOfType, type Parameter, type Schema } from "./openapi.ts";

// Values of requests that fuzz.ts draws: garbage, good ones, and what a schema allows or not.

/** Picks one of several arbitraries by weight. */
export const weighted = <T>(...choices: [weight: number, arbitrary: fc.Arbitrary<T>][]) =>
  fc.oneof(...choices.map(([weight, arbitrary]) => ({ weight, arbitrary })));
export const words = (text: string) => fc.constantFrom(...text.split(" "));
const texts = (text: string) => fc.constantFrom(...text.split("|"));

const hex = (digits: number) =>
  fc.bigInt(0n, 16n ** BigInt(digits) - 1n).map((number) => `0x${number.toString(16).padStart(digits, "0")}`);
const unicode = (maxLength: number) => fc.string({ unit: "binary", maxLength });
const latin1 = fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code));

/** Wallets and contracts of the samples, and some others, in any letter case. */
const address = fc
  .tuple(
    weighted([4, fc.constantFrom(VAULT, HOT, FRIEND, GUEST, GONE, OTHER, NFT, COIN)], [1, hex(40)]),
    words("as-is lower upper"),
  )
  .map(([text, how]) => (how === "lower" ? text.toLowerCase() : how === "upper" ? text.toUpperCase() : text));
const uint256 = fc.oneof(fc.constantFrom(0n, 7n, 8520n, 2n ** 256n - 1n), fc.bigInt(0n, 2n ** 256n - 1n));

const percentEncode = (text: string) =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
/** Encodes a text for a URL, completely or where needed. */
export const encode = (text: string) =>
  fc.constantFrom(percentEncode, encodeURIComponent, encodeURIComponent).map((how) => how(text));

/** Encoded values, as sent. */
const someGarbage = fc.oneof(
  fc.constantFrom("", "%", "%%", "%a", "%zz", "%00", "%ff", "%c0%80", "%ed%a0%80", "%u0061", "%!s(MISSING)", "%09"),
  words("%0d%0aX-Injected:%201 %0aX-Injected:1 x%0d%0a%0d%0aHTTP/1.1%20200%20OK %E2%80%AE %20"),
  words("__proto__ constructor toString hasOwnProperty [] {} null undefined NaN true * ; :wallet {wallet}"),
  words(`-1 0 +1 1.5 1e309 0x 0xg 0b1 1n 9007199254740993 99999999 ${2n ** 256n} ${"9".repeat(500)}`),
  words("'%20or%201=1-- ';drop%20table%20x <script>alert(1)</script> $%7Bjndi:ldap://x%7D {{7*7}}"),
  words("../../etc/passwd %2e%2e%2f%2e%2e ..%5c http://evil.example/ //evil.example"),
  fc.oneof(unicode(40), address).chain(encode),
  fc.string({ maxLength: 40 }).map((text) => text.replaceAll(/[ #]/g, "+")),
);
const longGarbage = fc
  .tuple(fc.integer({ min: 1, max: 10_000 }), words("x 0 % %F0%9F%94%A5 &to= a=1&"))
  .map(([length, text]) => text.repeat(length).slice(0, length));
export const garbage = weighted([6, someGarbage], [1, longGarbage]);

/** Cursors that may be valid. */
export const cursor = fc
  .record({
    version: words("v1 v2"),
    wallet: address,
    direction: words("incoming outgoing sideways"),
    block: fc.oneof(fc.bigInt(0n, 30n), fc.bigInt(0n, 10n ** 19n)),
    logIndex: fc.oneof(fc.constant(0), fc.integer({ min: -1, max: 10 ** 10 })),
  })
  .map(({ version, wallet, direction, block, logIndex }) =>
    Buffer.from(`${version}.1.${wallet.toLowerCase()}.${direction}.${block}.${logIndex}`).toString("base64url"),
  );

// Node's client refuses other characters.
const headerValue = fc.oneof(
  fc.string({ maxLength: 60 }),
  fc.string({ unit: latin1, maxLength: 60 }).map((text) => text.replaceAll(/[^\x20-\x7e\x80-\xff]/g, "?")),
  texts(
    "|*|null|undefined|0|-1|close|upgrade|chunked|gzip|gzip;q=9e9|bytes=0-0|keep-alive, X-Request-Id|application/json",
  ),
  texts(`W/"x"|"x", *|a,b;c=d|=;=;=|"}{"level":60|__proto__|%0d%0aX-Injected: 1|127.0.0.1`),
  fc.constantFrom("x,".repeat(1_000), "application/json;".repeat(100)),
);
/** Headers that change no answer. The client sets Content-Length itself. */
export const harmlessHeaders = fc.dictionary(
  words(
    "Accept Accept-Encoding Accept-Language Authorization Cache-Control Cookie Forwarded Origin Content-Type " +
      "If-None-Match If-Modified-Since If-Match Range Referer TE User-Agent X-Forwarded-For X-Forwarded-Host " +
      "X-Forwarded-Proto X-Forwarded-Port X-Real-IP X-HTTP-Method-Override X-Request-Id X-Original-URL constructor " +
      "X-Unknown Access-Control-Request-Method Access-Control-Request-Headers Sec-Fetch-Site Expect Upgrade Via DNT",
  ),
  headerValue,
  { maxKeys: 4 },
);
export const oddHeaders = fc
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
export const oddMethod = weighted(
  [1, fc.constant("OPTIONS")],
  [1, fc.constantFrom(...METHODS.filter((method) => method !== "HEAD" && method !== "CONNECT"))],
  [1, words("get Post FETCH X __proto__ GETT")],
);

export const oddBody = fc.oneof(
  texts('|{|[]|null|"x"|NaN|{}}|\ufeff{}|{"name":"a","name":1}|\0|a=1&b=2'),
  fc.constant('{"__proto__":{"isAdmin":true},"constructor":{"prototype":{"name":"x"}},"address":{"__proto__":null}}'),
  fc.constantFrom("[".repeat(30_000), '{"a":'.repeat(6_000), `{"name":"${"x".repeat(40_000)}"}`, " ".repeat(200_000)),
);
export const ODD_JSON: unknown[] = [
  ...[null, true, "", " ", 0, -1, 1.5, 1e300, 2 ** 53 - 1, "\0", "\ud800", "\u202e", "a\r\nX-Injected: 1", "1", ["1"]],
  ...[[], {}, [[]], { length: 1e9 }, { toString: 1 }, "0x", "0xg", "0x".padEnd(30_000, "0"), "x".repeat(20_000)],
  ...["delreg_0000", "<script>", "'; drop table service.api_key", `${VAULT}\n`],
];

export const oddContentType = texts(
  "application/json; charset=utf-8|Application/JSON|text/plain|application/jsonp||application/x-www-form-urlencoded|multipart/form-data; boundary=x",
);

/** Paths with bytes that no client sends, without line breaks, which would make two requests. */
export const rawPath = fc
  .tuple(
    fc.constantFrom("/", "/registry/v2/", `/registry/v2/${VAULT}?x=`, `/registry/v2/check/all?to=${HOT}&from=`),
    fc.string({ unit: latin1, minLength: 1, maxLength: 40 }).map((text) => text.replaceAll(/[\r\n]/g, "\0")),
  )
  .map(([place, bytes]) => `${place}${bytes}`);

// Values by schema.

const MAX_RIGHTS_BYTES = 31;

/** Values that a schema alone does not find: the samples' own, and those that a description limits further. */
const VALUES: Record<string, fc.Arbitrary<string>> = {
  ...Object.fromEntries(["to", "from", "delegate", "vault", "contract", "address"].map((name) => [name, address])),
  tokenId: fc.tuple(uint256, fc.boolean()).map(([id, isHex]) => (isHex ? `0x${id.toString(16)}` : `${id}`)),
  rights: fc.oneof(
    fc.constantFrom("", "0x", AIRDROP, "airdrop"),
    hex(64),
    unicode(7).filter((text) => !/^0x/i.test(text)),
  ),
  chainId: words("1 137"),
  block: words("finalized finalized 1 3"),
  minBlock: words("0 1 3"),
  timestamp: words("0 1 1500000000"),
};

/** Texts that a description rules out, though the schema does not. */
const INVALID_VALUES: Record<string, fc.Arbitrary<string>> = {
  rights: fc.oneof(
    hex(63),
    hex(65),
    unicode(60).filter((text) => Buffer.byteLength(text) > MAX_RIGHTS_BYTES),
  ),
  cursor: unicode(60),
};

/** Draws a text by its schema. */
export const textOf = (name: string, schema: Schema): fc.Arbitrary<string> => {
  if (schema.enum) return fc.constantFrom(...schema.enum.map(String));
  if (isOfType(schema, "boolean")) return words("true false");
  const known = VALUES[name];
  if (known) return known;
  if (schema.anyOf) return fc.oneof(...schema.anyOf.map((each) => textOf(name, each)));
  if (isOfType(schema, "integer")) {
    return fc.integer({ min: schema.minimum ?? 0, max: schema.maximum ?? 2 ** 31 }).map(String);
  }
  if (schema.pattern === "^0x[0-9a-fA-F]{40}$") return address;
  return schema.pattern ? fc.stringMatching(new RegExp(schema.pattern)) : unicode(20);
};

/** Draws the texts of a parameter: several only of an array. */
export const textsOf = ({ name, schema }: Parameter): fc.Arbitrary<string[]> => {
  if (!isArray(schema)) return textOf(name, schema).map((text) => [text]);
  return fc.uniqueArray(textOf(name, schema.items ?? {}), { minLength: 1, maxLength: 3 });
};

/** Draws texts that violate a schema; null if every text is valid. */
export const invalidTextOf = (name: string, schema: Schema): fc.Arbitrary<string> | null => {
  if (isArray(schema)) return invalidTextOf(name, schema.items ?? {});
  const known = INVALID_VALUES[name];
  if (known) return known;
  const other = fc.oneof(words("x 1.5 -1 +1 1e3 0xg null TRUE [] 1,2"), fc.constantFrom("", " "), unicode(50));
  if (schema.enum) return other.filter((text) => !schema.enum?.includes(text));
  if (isOfType(schema, "boolean")) return other.filter((text) => text !== "true" && text !== "false");
  if (isOfType(schema, "integer")) {
    const { minimum = 0, maximum } = schema;
    const beyond = [minimum - 1, ...(maximum === undefined ? [] : [maximum + 1])].map(String);
    return fc.oneof(fc.constantFrom(...beyond), other).filter((text) => !/^\d+$/.test(text) || beyond.includes(text));
  }
  const pattern = schema.pattern === undefined ? null : new RegExp(schema.pattern, "i");
  const nearly = textOf(name, schema).map((text) => `${text}-`);
  return pattern && fc.oneof(nearly, other).filter((text) => !pattern.test(text));
};
