import { generateKey } from "../../../api/keys/api-key.ts";
import { COIN, HOT, NFT, VAULT } from "../../support/api.ts";
import { misspellKey } from "../../support/keys.ts";
import type { Random } from "../../support/random.ts";

/** A request, and what its credentials are worth. */
export type FuzzRequest = {
  method: string;
  path: string;
  headers: Record<string, string | string[]>;
  body: string;
  isSignedIn: boolean;
  /** True with a key that v2 must refuse. */
  hasBadKey: boolean;
};

/** A session's cookie header, and the prefix of a key that it made. */
export type Session = { cookie: string; prefix: string };

/** Values of the service under test that requests use. */
export type Surface = {
  origin: string;
  /** Patterns like /registry/v2/{wallet}. */
  routes: readonly [string, ...string[]];
  assets: readonly [string, ...string[]];
  validKeys: readonly [string, ...string[]];
  revokedKeys: readonly [string, ...string[]];
  /** Sessions of signed-in visitors, and ones that have ended. Both are replaced while the test runs. */
  sessions: [Session, ...Session[]];
  endedSessions: [signedOut: Session, expired: Session];
};

const NUMBERS = [
  "-1",
  "0",
  "1.5",
  "1e309",
  "0x",
  "0b1",
  "NaN",
  "9007199254740993",
  "9".repeat(500),
  `${2n ** 256n}`,
] as const;

/** Encoded values, as sent. */
const GARBAGE = [
  ...["", "%", "%%", "%a", "%zz", "%00", "%ff", "%c0%80", "%ed%a0%80", "%u0061", "%!s(MISSING)", "%E2%80%AE"],
  ...["%0d%0aX-Injected:%201", "%0aX-Injected:1", "x%0d%0a%0d%0aHTTP/1.1%20200%20OK", "%09", "%20"],
  ...["__proto__", "constructor", "toString", "[]", "{}", "null", "undefined", "true", "*", ";", ":wallet", "{wallet}"],
  ...["'%20or%201=1--", "';drop%20table%20x", "<script>alert(1)</script>", "$%7Bjndi:ldap://x%7D", "{{7*7}}"],
  ...["../../etc/passwd", "%2e%2e%2f%2e%2e", "..%5c", "http://evil.example/", "//evil.example"],
  ...["x".repeat(3_000), "x".repeat(5_000), "%F0%9F%94%A5".repeat(200), "&to=".repeat(300), "a=1&".repeat(900)],
  ...NUMBERS,
] as const;

/** Parameters with which every operation answers; each ignores those that it does not know. */
const PARAMETERS = {
  delegate: HOT,
  vault: VAULT,
  contract: NFT,
  tokenId: "8520",
  chainId: "1",
  registry: "v2",
  direction: "incoming",
  limit: "10",
};
const OTHER_PARAMETERS = [
  ...["to", "from", "rights", "numbers", "details", "cursor", "partial", "block", "timestamp", "check", "apiKey"],
  ...["__proto__", "constructor", "0", "", "%zz", "to[]", "chainid"],
] as const;

const METHODS = {
  own: ["GET", "POST", "POST", "DELETE"],
  public: ["GET", "GET", "GET", "GET", "GET", "HEAD"],
  any: ["OPTIONS", "HEAD", "GET", "POST", "DELETE", "PUT", "PATCH", "TRACE", "PROPFIND", "QUERY", "PURGE"],
} as const;

/** A check of a bulk request. */
const CHECK_FIELDS = { id: "a", registry: "v2", check: "erc721", to: HOT, from: VAULT, contract: NFT, tokenId: "1" };

/** A body with which every operation with a body works, but for the signature. */
const BODY: Record<string, unknown> = {
  checks: [CHECK_FIELDS, { ...CHECK_FIELDS, chainId: 137 }],
  address: HOT,
  chainId: 1,
  message: "127.0.0.1 wants you to sign in with your Ethereum account:\n",
  signature: `0x${"1b".repeat(65)}`,
  name: "fuzz",
};
const WRONG_VALUES = [
  ...[null, true, "", " ", 0, -1, 1.5, 1e300, 2 ** 53 - 1, "\0", "\ud800", "\u202e", "a\r\nX-Injected: 1"],
  ...[[], {}, [[]], { length: 1e9 }, { toString: 1 }, "0x", "0xg", "0x".padEnd(30_000, "0"), "x".repeat(20_000)],
  ...["delreg_0000", "<script>", "'; drop table service.api_key", `${VAULT}\n`, "1", ["1"]],
] as const;
const HUGE_BODIES = [
  "[".repeat(30_000),
  '{"a":'.repeat(6_000),
  `{"name":"${"x".repeat(40_000)}"}`,
  " ".repeat(200_000),
] as const;
const ODD_BODIES = [
  "",
  "{",
  "[]",
  "null",
  '"x"',
  "NaN",
  "{}}",
  "\ufeff{}",
  '{"name":"a","name":1}',
  "\0",
  "a=1&b=2",
] as const;
const PROTOTYPE_BODY =
  '{"__proto__":{"isAdmin":true,"address":"x"},"constructor":{"prototype":{"name":"x"}},"address":{"__proto__":null},"name":"fuzz"}';

const CONTENT_TYPES = [
  ...[
    "application/json",
    "application/json",
    "application/json",
    "application/json; charset=utf-8",
    "Application/JSON",
  ],
  ...["text/plain", "application/jsonp", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""],
] as const;

/** Header values that Node's client sends. */
const ODD_VALUES = [
  ...["", "*", "null", "undefined", "0", "-1", "close", "upgrade", "keep-alive, X-Request-Id", "chunked", "gzip;q=9e9"],
  ...[
    "bytes=0-0",
    'W/"x"',
    '"x", *',
    "\xff\xfe\xe4",
    "a,b;c=d",
    "=;=;=",
    '"}{"level":60',
    "__proto__",
    "%0d%0aX-Injected: 1",
  ],
  ...["x".repeat(2_000), "x,".repeat(1_000), "application/json;".repeat(100)],
] as const;
const HEADERS = [
  ...["Accept", "Accept-Encoding", "Accept-Language", "Authorization", "Cache-Control", "Forwarded", "If-None-Match"],
  ...["If-Modified-Since", "If-Match", "Range", "Referer", "TE", "User-Agent", "X-Forwarded-Host", "X-Forwarded-Proto"],
  ...["X-Forwarded-Port", "X-Real-IP", "X-HTTP-Method-Override", "X-Original-URL", "X-Request-Id", "Via", "Upgrade"],
  ...[
    "Access-Control-Request-Method",
    "Access-Control-Request-Headers",
    "Sec-Fetch-Site",
    "Expect",
    "Connection",
    "constructor",
  ],
] as const;
const HOSTS = [
  ...[
    "api.example",
    "LOCALHOST",
    "localhost:99999",
    "localhost:0",
    "[::1]:80",
    "evil.example@127.0.0.1",
    "a b",
    "",
    ".",
  ],
  ...["127.0.0.1.", "*", "x".repeat(300), "xn--80ak6aa92e.com", "127.0.0.1, evil.example", "http://127.0.0.1", "\xe4"],
] as const;
const ORIGINS = ["null", "", "http://evil.example", "http://127.0.0.1", "https://localhost", "file://", "*"] as const;
const PROXIES = [
  ...["127.0.0.1", "::1", "::ffff:203.0.113.9", "[2001:db8::1]:443", "203.0.113.9:1", "unknown", "_hidden", "", "0"],
  ...["256.1.1.1", "127.1", "0x7f.1", "fe80::1%eth0", "1.2.3.4\t", "2001:db8::1::", '"', "x".repeat(300)],
] as const;

/** Creates a function that returns random requests to a surface: good ones, and good ones with some parts spoiled. */
export const createRequests = (random: Random, surface: Surface): (() => FuzzRequest) => {
  const garbage = (): string =>
    random.chance(0.8) ? random.pick(GARBAGE) : `%${random.integer(0, 255).toString(16).padStart(2, "0")}`.repeat(3);
  const address = () => Array.from({ length: 4 }, () => random.integer(1, 254)).join(".");

  const fill = (route: string, prefix: string): string =>
    route.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
      if (random.chance(0.15)) return garbage();
      if (name === "file") return random.pick(surface.assets);
      return name === "prefix" ? random.pick([prefix, prefix, "delreg_0000"]) : random.pick([VAULT, HOT, COIN]);
    });

  const spoilPath = (path: string): string => {
    const at = random.integer(0, path.length);
    return random.pick([
      `${path}/`,
      `/${path}`,
      `${path}/${garbage()}`,
      `/.${path}`,
      `/x/..${path}`,
      `http://evil.example${path}`,
      `${path.slice(0, at)}${garbage()}${path.slice(at)}`,
      `${path.slice(0, at)}%${path.charCodeAt(at % path.length).toString(16)}${path.slice(at + 1)}`,
      path.toUpperCase(),
      "*",
    ]);
  };

  const query = (): string => {
    const pairs = Object.entries(PARAMETERS);
    for (let edits = random.pick([0, 0, 1, 1, 2, 4]); edits > 0; edits--) {
      const at = random.integer(0, pairs.length - 1);
      const [name, value] = pairs[at] ?? ["", ""];
      const how = random.integer(0, 3);
      if (how === 0) pairs[at] = [name, garbage()];
      if (how === 1) pairs.splice(at, 1);
      if (how === 2) pairs.push([name, random.chance(0.5) ? value : garbage()]);
      if (how === 3)
        pairs.push([random.pick(OTHER_PARAMETERS), random.chance(0.5) ? random.pick([HOT, "1", "true"]) : garbage()]);
    }
    return `?${pairs.map((pair) => pair.join("=")).join("&")}`;
  };

  const body = (): string => {
    const how = random.integer(0, 9);
    if (how === 0) return random.pick(ODD_BODIES);
    if (how === 1) return PROTOTYPE_BODY;
    if (how === 2 && random.chance(0.3)) return random.pick(HUGE_BODIES);
    if (how > 6) return JSON.stringify(BODY);
    const wrong = random.pick(WRONG_VALUES);
    const field = random.pick([
      "id",
      "registry",
      "check",
      "to",
      "delegate",
      "contract",
      "tokenId",
      "rights",
      "chainId",
    ]);
    const names = [
      "address",
      "chainId",
      "message",
      "signature",
      "name",
      "checks",
      "block",
      "__proto__",
      "extra",
    ] as const;
    const edit = random.chance(0.3)
      ? { checks: [CHECK_FIELDS, { ...CHECK_FIELDS, [field]: wrong }] }
      : { [random.pick(names)]: wrong };
    const json = JSON.stringify({ ...BODY, ...edit });
    return how === 3 ? json.slice(0, random.integer(0, json.length)) : json;
  };

  /** Returns the cookies of a session, or ones that nobody may sign in with. */
  const cookies = (session: Session): { isSignedIn: boolean; cookie: string | undefined } => {
    if (random.chance(0.5)) return { isSignedIn: true, cookie: session.cookie };
    const [name = "", token = ""] = session.cookie.split("=");
    const cookie = random.pick([
      undefined,
      random.pick(surface.endedSessions).cookie,
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

  const keyHeader = (): { hasBadKey: boolean; value: string | string[] | undefined } => {
    if (random.chance(0.7)) return { hasBadKey: false, value: undefined };
    if (random.chance(0.4)) return { hasBadKey: false, value: random.pick(surface.validKeys) };
    const valid = random.pick(surface.validKeys);
    const bad = [
      generateKey(),
      misspellKey(valid),
      `${valid} `.repeat(2),
      "delreg_",
      "x",
      "*",
      [valid, valid],
      "\xe4",
    ] as const;
    return { hasBadKey: true, value: random.pick([random.pick(surface.revokedKeys), ...bad]) as string | string[] };
  };

  const forwardedFor = (): string | undefined => {
    if (random.chance(0.7)) return address();
    const chain = Array.from({ length: random.pick([0, 1, 2, 5, 100]) }, () =>
      random.chance(0.5) ? address() : random.pick(PROXIES),
    );
    return chain.length === 0 ? undefined : chain.join(random.pick([", ", ",", " , "]));
  };

  return () => {
    const route = random.pick(surface.routes);
    const hasOwnMethods = route.startsWith("/developers/api") || route === "/registry/checks";
    const method = random.pick(random.chance(0.1) ? METHODS.any : METHODS[hasOwnMethods ? "own" : "public"]);
    const session = random.pick(surface.sessions);
    const filled = fill(route, session.prefix);
    const path = `${random.chance(0.1) ? spoilPath(filled) : filled}${random.chance(0.9) ? query() : ""}`;
    const { isSignedIn, cookie } = cookies(session);
    const { hasBadKey, value } = keyHeader();
    const hasBody = method !== "GET" && method !== "HEAD" ? random.chance(0.9) : random.chance(0.02);
    const headers: Record<string, string | string[] | undefined> = {
      Host: random.chance(0.95) ? new URL(surface.origin).host : random.pick(HOSTS),
      Origin: random.chance(0.85) ? surface.origin : random.pick([...ORIGINS, `${surface.origin}.evil.example`]),
      "X-Forwarded-For": forwardedFor(),
      Cookie: cookie,
      "X-API-KEY": value,
      "Content-Type": hasBody ? random.pick(CONTENT_TYPES) : undefined,
    };
    for (let odd = random.pick([0, 0, 0, 1, 2, 5]); odd > 0; odd--)
      headers[random.pick(HEADERS)] = random.pick(ODD_VALUES);
    if (random.chance(0.01)) headers["X-Flood"] = "x".repeat(random.integer(1, 12_000));
    const sent = Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value] as const],
    );
    return { method, path, headers: Object.fromEntries(sent), body: hasBody ? body() : "", isSignedIn, hasBadKey };
  };
};
