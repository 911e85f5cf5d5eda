import { METHODS } from "node:http";
import fc from "fast-check";
import { PROBLEMS, type ProblemName } from "../../api/problem.ts";
import { AIRDROP, COIN, FRIEND, GONE, GUEST, HOT, NFT, OTHER, VAULT } from "./api.ts";
import type { HttpAnswer } from "./http.ts";
import type { Operation, Parameter, Schema } from "./openapi.ts";

// Requests drawn from the operations of an OpenAPI document: valid ones, ones that break the contract in one place, and
// ones with garbage anywhere. A new operation is drawn the day it exists. worst-requests.ts draws the most expensive ones.

export type FuzzRequest = {
  method: string;
  path: string;
  headers: Record<string, string | string[]>;
  body: string;
};

/** Picks one of several arbitraries by weight. */
export const weighted = <T>(...choices: [weight: number, arbitrary: fc.Arbitrary<T>][]) =>
  fc.oneof(...choices.map(([weight, arbitrary]) => ({ weight, arbitrary })));
const words = (text: string) => fc.constantFrom(...text.split(" "));

// Values.

const hex = (digits: number) =>
  fc.bigInt(0n, 16n ** BigInt(digits) - 1n).map((number) => `0x${number.toString(16).padStart(digits, "0")}`);
const unicode = (maxLength: number) => fc.string({ unit: "binary", maxLength });
const latin1 = fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code));

/** Wallets and contracts of the samples, and some others, in any letter case. */
const address = fc
  .tuple(
    weighted([4, fc.constantFrom(VAULT, HOT, FRIEND, GUEST, GONE, OTHER, NFT, COIN)], [1, hex(40)]),
    fc.constantFrom(
      String,
      (text: string) => text.toLowerCase(),
      (text: string) => text.toUpperCase(),
    ),
  )
  .map(([text, respell]) => respell(text));
const uint256 = fc.oneof(fc.constantFrom(0n, 7n, 8520n, 2n ** 256n - 1n), fc.bigInt(0n, 2n ** 256n - 1n));
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

const isOfType = ({ type }: Schema, name: string) => [type].flat().includes(name);

/** Draws a text by its schema. */
const textOf = (name: string, schema: Schema): fc.Arbitrary<string> => {
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

const isArray = (schema: Schema) => isOfType(schema, "array");

/** Draws the texts of a parameter: several only of an array. */
const textsOf = ({ name, schema }: Parameter): fc.Arbitrary<string[]> => {
  if (!isArray(schema)) return textOf(name, schema).map((text) => [text]);
  return fc.uniqueArray(textOf(name, schema.items ?? {}), { minLength: 1, maxLength: 3 });
};

/** Draws texts that violate a schema; null if every text is valid. */
const invalidTextOf = (name: string, schema: Schema): fc.Arbitrary<string> | null => {
  if (isArray(schema)) return invalidTextOf(name, schema.items ?? {});
  const known = INVALID_VALUES[name];
  if (known) return known;
  const other = fc.oneof(words("x 1.5 -1 +1 1e3 0xg null TRUE [] 1,2"), fc.constantFrom("", " "), unicode(50));
  if (schema.enum) return other.filter((text) => !schema.enum?.includes(text));
  if (isOfType(schema, "boolean")) return other.filter((text) => text !== "true" && text !== "false");
  if (isOfType(schema, "integer")) {
    const { minimum = 0, maximum } = schema;
    const beyond = [minimum - 1, ...(maximum === undefined ? [] : [maximum + 1])].map(String);
    return fc.oneof(
      fc.constantFrom(...beyond),
      other.filter((text) => !/^\d+$/.test(text)),
    );
  }
  const pattern = schema.pattern === undefined ? null : new RegExp(schema.pattern, "i");
  return (
    pattern &&
    fc
      .oneof(
        textOf(name, schema).map((text) => `${text}-`),
        other,
      )
      .filter((text) => !pattern.test(text))
  );
};

// Valid requests.

const percentEncode = (text: string) =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
const encode = (text: string) =>
  fc.constantFrom(percentEncode, encodeURIComponent, encodeURIComponent).map((how) => how(text));

/** A query parameter, as sent. */
type Pair = { name: string; value: string };
/** Encoded values of path parameters, and the query. */
type Question = { params: Record<string, string>; pairs: Pair[] };

/** Parameters of which a request has at most one. */
const MOMENTS = ["block", "minBlock", "timestamp"];

/** Parameters that depend on each other: names to give together, with some of their values. */
type Group = { names: string[]; fixed: Record<string, string> };

const SCOPES: Group[] = [
  { names: [], fixed: {} },
  { names: ["contract"], fixed: {} },
  { names: ["contract", "tokenId"], fixed: {} },
  { names: ["check"], fixed: { check: "all" } },
  { names: ["check", "contract"], fixed: { check: "contract" } },
  { names: ["check", "contract", "registry"], fixed: { check: "erc20", registry: "v2" } },
  ...["token", "erc721"].map((check) => ({ names: ["check", "contract", "tokenId"], fixed: { check } })),
  { names: ["check", "contract", "tokenId", "registry"], fixed: { check: "erc1155", registry: "v2" } },
];
const SCOPE_NAMES = ["check", "contract", "tokenId"];

/** Chooses parameters that fit together. */
const chooseParameters = ({ parameters }: Operation): fc.Arbitrary<Group> => {
  const takes = (name: string) => parameters.some((parameter) => parameter.name === name);
  const hasNetworks = parameters.some(({ name, schema }) => name === "chainId" && isArray(schema));
  const moments = MOMENTS.filter(takes).map((name) => ({
    names: [name],
    // A block number is of one network.
    fixed: (hasNetworks && name !== "timestamp" ? { chainId: "1" } : {}) as Group["fixed"],
  }));
  const isGrouped = (name: string) => MOMENTS.includes(name) || (takes("check") && SCOPE_NAMES.includes(name));
  // A cursor comes from the page before.
  const single = parameters.filter(({ name }) => !isGrouped(name) && name !== "cursor");
  const required = single.filter((parameter) => parameter.required).map(({ name }) => name);
  const optional = single.filter((parameter) => !parameter.required).map(({ name }) => name);
  const none: Group = { names: [], fixed: {} };
  return fc
    .tuple(
      fc.subarray(optional),
      fc.constantFrom(none, ...moments),
      takes("check") ? fc.constantFrom(...SCOPES) : fc.constant(none),
    )
    .map(([names, moment, scope]) => {
      const fixed = { ...moment.fixed, ...scope.fixed };
      return {
        names: [...new Set([...required, ...names, ...moment.names, ...scope.names, ...Object.keys(fixed)])],
        fixed,
      };
    });
};

const SYNONYM = /`(\w+)` is another name for it/;

const drawQuestion = (operation: Operation): fc.Arbitrary<Question> =>
  chooseParameters(operation).chain(({ names, fixed }) => {
    const chosen = operation.parameters.filter(({ name }) => names.includes(name));
    const drawn = chosen.map((parameter) => {
      const { name, schema } = parameter;
      const [, synonym = name] = SYNONYM.exec(schema.description ?? "") ?? [];
      const texts = fixed[name] === undefined ? textsOf(parameter) : fc.constant([fixed[name]]);
      const encoded = texts.chain((each) => fc.tuple(...each.map(encode)));
      return fc.record({ parameter: fc.constant(parameter), name: fc.constantFrom(name, name, synonym), encoded });
    });
    return fc.tuple(...drawn).map((all) => ({
      params: Object.fromEntries(
        all.flatMap(({ parameter, encoded }) => (parameter.in === "path" ? [[parameter.name, encoded[0] ?? ""]] : [])),
      ),
      pairs: all.flatMap(({ parameter, name, encoded }) =>
        parameter.in === "query" ? encoded.map((value) => ({ name, value })) : [],
      ),
    }));
  });

const write = ({ path }: Operation, { params, pairs }: Question, slash = "") => {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => params[name] ?? "");
  return `${filled}${slash}${pairs.length > 0 ? "?" : ""}${pairs.map(({ name, value }) => `${name}=${value}`).join("&")}`;
};

/** Draws a JSON value by its schema. @param without - names of fields to leave out */
const jsonOf = (name: string, schema: Schema, without: readonly string[] = []): fc.Arbitrary<unknown> => {
  if (isArray(schema)) return fc.array(jsonOf(name, schema.items ?? {}, without), { minLength: 1, maxLength: 5 });
  if (schema.properties) {
    const fields = Object.entries(schema.properties).filter(([field]) => !without.includes(field));
    const arbitraries = fields.map(([field, each]) => [field, jsonOf(field, each, without)] as const);
    return fc.record(Object.fromEntries(arbitraries), {
      requiredKeys: schema.required ?? Object.keys(schema.properties),
    });
  }
  if (isOfType(schema, "boolean")) return fc.boolean();
  return textOf(name, schema).map((text) => (isOfType(schema, "integer") ? Number(text) : text));
};

const drawBody = ({ body }: Operation): fc.Arbitrary<string> => {
  if (!body) return fc.constant("");
  const properties = Object.keys(body.schema.properties ?? {});
  const moments = MOMENTS.filter((name) => properties.includes(name));
  const kept = fc.constantFrom(undefined, ...moments);
  const drawn = kept.chain((moment) => {
    const others = moments.filter((name) => name !== moment);
    // A block number is of one network.
    return jsonOf("body", body.schema, moment ? [...others, "chainId"] : others);
  });
  return weighted([1, fc.constant(body.example)], [2, drawn]).map((value) => JSON.stringify(value));
};

const contentType = ({ body }: Operation): Record<string, string> =>
  body ? { "Content-Type": "application/json" } : {};

const unknownPair: fc.Arbitrary<Pair> = fc.record({
  name: fc.constantFrom("_", "ref", "apiKey", "__proto__", "constructor", "0", "", "%zz", "%00", "chainid", "to[]"),
  value: fc.constantFrom("", "%", "%zz", "%00", "__proto__", "1", "'%20or%201=1--", "<script>", "../../etc/passwd"),
});

const shuffle = <T>(values: readonly T[]) => fc.shuffledSubarray([...values], { minLength: values.length });

/** Draws requests that must be answered: parameters in any order, beside unknown ones and headers that change nothing. */
export const drawValid = (operation: Operation): fc.Arbitrary<FuzzRequest> =>
  fc
    .record({
      question: drawQuestion(operation),
      unknown: fc.array(unknownPair, { maxLength: 3 }),
      method: operation.method === "GET" ? words("GET GET GET GET HEAD") : fc.constant(operation.method),
      slash: fc.constantFrom("", "", "", "/"),
      headers: harmlessHeaders,
      body: drawBody(operation),
    })
    .chain(({ question: { params, pairs }, unknown, method, slash, headers, body }) =>
      shuffle([...pairs, ...unknown]).map((pairs) => ({
        method,
        path: write(operation, { params, pairs }, slash),
        headers: { ...headers, ...contentType(operation) },
        body,
      })),
    );

// Invalid requests.

/** A way to break the contract of an operation, and the answer that follows from the contract. */
export type Violation = {
  name: string;
  status: number;
  /** Name of the bad parameter or field. */
  parameter?: string;
  /** True for a field of one of several questions: the others are answered, with 200. */
  isOfItem?: boolean;
  requests: fc.Arbitrary<FuzzRequest>;
};

/** Lists the ways to break the contract of an operation: every parameter and field in every way that its schema has. */
export const listViolations = (operation: Operation): Violation[] => [
  ...operation.parameters.flatMap((parameter) => violateParameter(operation, parameter)),
  ...(operation.responses[400] ? MOMENTS : [])
    .filter((name) => !operation.parameters.some((parameter) => parameter.name === name))
    .map((name) => ({
      name: `${name} is not taken`,
      status: 400,
      parameter: name,
      requests: edit(operation, (question) => ({ ...question, pairs: [...question.pairs, { name, value: "1" }] })),
    })),
  ...(operation.body ? violateBody(operation, operation.body) : []),
  ...violateHttp(operation),
];

/** Draws valid requests with an edited question. */
const edit = (
  operation: Operation,
  change: (question: Question) => Question,
  rest: Partial<FuzzRequest> = {},
): fc.Arbitrary<FuzzRequest> =>
  fc.tuple(drawQuestion(operation), drawBody(operation)).map(([question, body]) => ({
    method: operation.method,
    path: write(operation, change(question)),
    body,
    ...rest,
    headers: { ...contentType(operation), ...rest.headers },
  }));

const violateParameter = (operation: Operation, parameter: Parameter): Violation[] => {
  const { name, schema } = parameter;
  const [, synonym] = SYNONYM.exec(schema.description ?? "") ?? [];
  const replace = (question: Question, values: string[]): Question => {
    if (parameter.in === "path") return { ...question, params: { ...question.params, [name]: values.join() } };
    const others = question.pairs.filter((pair) => pair.name !== name && pair.name !== synonym);
    return { ...question, pairs: [...others, ...values.map((value) => ({ name, value }))] };
  };
  const violate = (how: string, values: fc.Arbitrary<string[]>): Violation => ({
    name: `${name} ${how}`,
    status: 400,
    parameter: name,
    requests: values.chain((given) => edit(operation, (question) => replace(question, given))),
  });
  const malformed = words("% %% %a %zz %ff %c0%80 %ed%a0%80 %u0061").map((value) => [value]);
  // Dots and slashes would make another path.
  const invalid = invalidTextOf(name, schema)
    ?.filter((text) => parameter.in === "query" || !/^\.{0,2}$/.test(text))
    .map(encodeURIComponent);
  const valid = textsOf(parameter).map((texts) => texts.map(encodeURIComponent));
  return [
    violate("is malformed", malformed),
    ...(invalid
      ? [
          violate(
            "is invalid",
            invalid.map((value) => [value]),
          ),
        ]
      : []),
    ...(parameter.in === "query" && parameter.required ? [violate("is missing", fc.constant([]))] : []),
    ...(parameter.in === "query" && invalid
      ? [
          violate(
            "is valid, then invalid",
            fc.tuple(valid, invalid).map(([good, bad]) => [...good, bad]),
          ),
        ]
      : []),
  ];
};

type Field = { path: readonly string[]; schema: Schema; isRequired: boolean };

/** Lists the fields of a schema, with the names and array items that lead to them. */
export const listFields = (schema: Schema, path: readonly string[] = [], isRequired = false): Field[] => {
  const { properties = {}, required = [], items, anyOf = [] } = schema;
  return [
    { path, schema, isRequired },
    ...Object.entries(properties).flatMap(([name, field]) =>
      listFields(field, [...path, name], required.includes(name)),
    ),
    ...(items ? listFields(items, [...path, "item"]) : []),
    ...anyOf.flatMap((each) => listFields(each, path).slice(1)),
  ];
};

/** Writes JSON with one value replaced by a text that need not be JSON, or left out. */
export const replaceIn = (example: unknown, path: readonly string[], json: string | null): string => {
  const [name, ...rest] = path;
  if (name === undefined) return json ?? "";
  if (Array.isArray(example)) {
    // The last example has the most fields.
    const others = example.slice(0, -1).map((each) => JSON.stringify(each));
    return `[${[...others, replaceIn(example.at(-1), rest, json)].join()}]`;
  }
  const fields: Record<string, unknown> = { ...(example as object) };
  const written = Object.entries(fields).flatMap(([key, value]) =>
    key === name ? [] : [[key, JSON.stringify(value)]],
  );
  if (json !== null || rest.length > 0) written.push([name, replaceIn(fields[name], rest, json)]);
  return `{${written.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join()}}`;
};

const violateBody = (operation: Operation, { schema, example }: NonNullable<Operation["body"]>): Violation[] => {
  const violate = (path: readonly string[], how: string, json: string | null): Violation => {
    const isOfItem = path.includes("item");
    return {
      name: `${path.join(".") || "body"} ${how}`,
      status: isOfItem ? 200 : 400,
      isOfItem,
      parameter: path.findLast((name) => name !== "item") ?? "body",
      requests: edit(operation, (question) => question, { body: replaceIn(example, path, json) }),
    };
  };
  return [
    ...["{", "", "x", JSON.stringify(example).slice(0, -1)].map((text) =>
      violate([], `is ${text.slice(0, 9)}, not JSON`, text),
    ),
    ...listFields(schema).flatMap(({ path, schema: field, isRequired }) => [
      ...["{}", "[]", "true", "1.5"]
        .filter((json) => !(json === "{}" && field.properties) && !(json === "[]" && isArray(field)))
        .map((json) => violate(path, `is ${json}`, json)),
      ...(field.enum ? [violate(path, "is another word", '"other"')] : []),
      ...(isRequired ? [violate(path, "is missing", null)] : []),
      ...(field.maxItems ? [violate(path, "is too long", JSON.stringify(new Array(field.maxItems + 1).fill(0)))] : []),
    ]),
  ];
};

const violateHttp = (operation: Operation): Violation[] => {
  const { methods, method, takesKey, body } = operation;
  const others = ["POST", "PUT", "PATCH", "DELETE", "GET"].filter((name) => !methods.includes(name));
  const violate = (name: string, status: number, rest: Partial<FuzzRequest>): Violation => ({
    name,
    status,
    requests: edit(operation, (question) => question, rest),
  });
  const long: Pair = { name: "_", value: "x".repeat(5_000) };
  return [
    ...others.map((other) => violate(`method ${other}`, 405, { method: other })),
    ...(takesKey ? [violate("unknown key", 401, { headers: { "X-API-KEY": "x" } })] : []),
    violate("large headers", 431, { headers: { "X-Flood": "x".repeat(20_000) } }),
    { name: "long URL", status: 414, requests: edit(operation, ({ params }) => ({ params, pairs: [long] })) },
    ...(body
      ? [
          violate("body is not JSON by its type", 415, { method, headers: { "Content-Type": "text/plain" } }),
          violate("large body", 413, { method, body: " ".repeat(40_000) }),
        ]
      : []),
  ];
};

// Garbage.

/** Encoded values, as sent. */
const garbage = weighted(
  [
    6,
    fc.oneof(
      fc.constantFrom("", "%", "%%", "%a", "%zz", "%00", "%ff", "%c0%80", "%ed%a0%80", "%u0061", "%!s(MISSING)", "%09"),
      words("%0d%0aX-Injected:%201 %0aX-Injected:1 x%0d%0a%0d%0aHTTP/1.1%20200%20OK %E2%80%AE %20"),
      words("__proto__ constructor toString hasOwnProperty [] {} null undefined NaN true * ; :wallet {wallet}"),
      words(`-1 0 +1 1.5 1e309 0x 0xg 0b1 1n 9007199254740993 99999999 ${2n ** 256n} ${"9".repeat(500)}`),
      words("'%20or%201=1-- ';drop%20table%20x <script>alert(1)</script> $%7Bjndi:ldap://x%7D {{7*7}}"),
      words("../../etc/passwd %2e%2e%2f%2e%2e ..%5c http://evil.example/ //evil.example"),
      fc.oneof(unicode(40), address).chain(encode),
      fc.string({ maxLength: 40 }).map((text) => text.replaceAll(/[ #]/g, "+")),
    ),
  ],
  [
    1,
    fc
      .tuple(fc.integer({ min: 1, max: 10_000 }), words("x 0 % %F0%9F%94%A5 &to= a=1&"))
      .map(([length, text]) => text.repeat(length).slice(0, length)),
  ],
);

/** Cursors that may be valid. */
const cursor = fc
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
  fc.constantFrom(
    "",
    "*",
    "null",
    "undefined",
    "0",
    "-1",
    "close",
    "upgrade",
    "chunked",
    "gzip",
    "gzip;q=9e9",
    "bytes=0-0",
  ),
  fc.constantFrom(
    "keep-alive, X-Request-Id",
    'W/"x"',
    '"x", *',
    "a,b;c=d",
    "=;=;=",
    '"}{"level":60',
    "application/json",
  ),
  fc.constantFrom("__proto__", "%0d%0aX-Injected: 1", "127.0.0.1", "x,".repeat(1_000), "application/json;".repeat(100)),
);
/** Headers that change no answer. The client sets Content-Length itself. */
const harmlessHeaders = fc.dictionary(
  words(
    "Accept Accept-Encoding Accept-Language Authorization Cache-Control Cookie Forwarded Origin Content-Type " +
      "If-None-Match If-Modified-Since If-Match Range Referer TE User-Agent X-Forwarded-For X-Forwarded-Host " +
      "X-Forwarded-Proto X-Forwarded-Port X-Real-IP X-HTTP-Method-Override X-Request-Id X-Original-URL constructor " +
      "X-Unknown Access-Control-Request-Method Access-Control-Request-Headers Sec-Fetch-Site Expect Upgrade Via DNT",
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
const oddMethod = weighted(
  [1, fc.constant("OPTIONS")],
  [1, fc.constantFrom(...METHODS.filter((method) => method !== "HEAD" && method !== "CONNECT"))],
  [1, words("get Post FETCH X __proto__ GETT")],
);

const ODD_BODIES = fc.oneof(
  fc.constantFrom("", "{", "[]", "null", '"x"', "NaN", "{}}", "\ufeff{}", '{"name":"a","name":1}', "\0", "a=1&b=2"),
  fc.constant('{"__proto__":{"isAdmin":true},"constructor":{"prototype":{"name":"x"}},"address":{"__proto__":null}}'),
  fc.constantFrom("[".repeat(30_000), '{"a":'.repeat(6_000), `{"name":"${"x".repeat(40_000)}"}`, " ".repeat(200_000)),
);
const ODD_JSON: unknown[] = [
  ...[null, true, "", " ", 0, -1, 1.5, 1e300, 2 ** 53 - 1, "\0", "\ud800", "\u202e", "a\r\nX-Injected: 1", "1", ["1"]],
  ...[[], {}, [[]], { length: 1e9 }, { toString: 1 }, "0x", "0xg", "0x".padEnd(30_000, "0"), "x".repeat(20_000)],
  ...["delreg_0000", "<script>", "'; drop table service.api_key", `${VAULT}\n`],
];

/** Draws a body with a field of any value, or cut off, or no JSON at all. */
const spoilBody = ({ body }: Operation): fc.Arbitrary<string> => {
  const fields = listFields(body?.schema ?? {}).map(({ path }) => path);
  const json = fc
    .tuple(fc.constantFrom(...fields), fc.constantFrom(...ODD_JSON))
    .map(([path, value]) => replaceIn(body?.example, path, JSON.stringify(value)));
  const cut = fc.tuple(json, fc.nat(1_000)).map(([text, length]) => text.slice(0, length));
  return weighted([4, json], [1, cut], [1, ODD_BODIES]);
};

const CONTENT_TYPES = fc.constantFrom(
  ...["application/json; charset=utf-8", "Application/JSON", "text/plain", "application/jsonp", ""],
  ...["application/x-www-form-urlencoded", "multipart/form-data; boundary=x"],
);

/** Draws valid requests with some values replaced by garbage, some pairs missing or repeated, and odd headers or methods. */
export const drawSpoiled = (operation: Operation): fc.Arbitrary<FuzzRequest> =>
  fc
    .record({
      question: drawQuestion(operation),
      params: fc.dictionary(fc.constantFrom(...operation.parameters.map(({ name }) => name), "_"), garbage, {
        maxKeys: 1,
      }),
      edits: fc.array(
        fc.record({ index: fc.nat(20), value: garbage, how: words("replace repeat append remove none add") }),
        { maxLength: 3 },
      ),
      extra: fc.oneof(
        unknownPair,
        fc.record({ name: fc.constantFrom(...operation.parameters.map(({ name }) => name), "to"), value: garbage }),
        fc.record({ name: fc.constant("cursor"), value: cursor }),
      ),
      method: weighted([4, fc.constant(operation.method)], [1, oddMethod]),
      headers: oddHeaders,
      type: weighted([4, fc.constant("application/json")], [1, CONTENT_TYPES]),
      body: operation.body
        ? fc.oneof(drawBody(operation), spoilBody(operation))
        : weighted([20, fc.constant("")], [1, ODD_BODIES]),
    })
    .map(({ question, params, edits, extra, method, headers, type, body }) => {
      const pairs = [...question.pairs];
      for (const { index, value, how } of edits) {
        const at = index % Math.max(1, pairs.length);
        const pair = pairs[at] ?? extra;
        if (how === "replace") pairs[at] = { ...pair, value };
        if (how === "append") pairs[at] = { ...pair, value: `${pair.value}${value}` };
        if (how === "repeat") pairs.push({ ...pair, value: index % 2 ? value : pair.value });
        if (how === "remove") pairs.splice(at, 1);
        if (how === "add") pairs.push(extra);
      }
      return {
        method,
        path: write(operation, { params: { ...question.params, ...params }, pairs }),
        headers: body === "" ? headers : { ...headers, "Content-Type": type },
        body,
      };
    });

/** Draws requests to any path, most of which do not exist. */
export const drawStray = (operations: readonly Operation[]): fc.Arbitrary<FuzzRequest> => {
  const segment = weighted(
    [3, fc.constantFrom(...new Set(operations.flatMap(({ path }) => path.split("/").slice(1))), "v3")],
    [1, fc.constantFrom("", ".", "..", "%2e%2e", "%2f", "%5c", ";", ":wallet", "*", "{wallet}", VAULT)],
    [1, garbage],
  );
  const path = fc
    .record({
      start: fc.constantFrom("/", "/", "/registry/v2/", "/wallets/", "//", "/x/../", "/.", "http://evil.example/", "*"),
      segments: fc.array(segment, { maxLength: 6 }),
      query: fc.oneof(
        fc.constant(""),
        garbage.map((value) => `?to=${value}`),
      ),
    })
    .map(({ start, segments, query }) => `${start}${segments.join("/")}${query}`);
  // Bytes that no client sends, without line breaks, which would make two requests.
  const raw = fc
    .tuple(
      fc.constantFrom("/", "/registry/v2/", `/registry/v2/${VAULT}?x=`, `/registry/v2/check/all?to=${HOT}&from=`),
      fc.string({ unit: latin1, minLength: 1, maxLength: 40 }).map((text) => text.replaceAll(/[\r\n]/g, "\0")),
    )
    .map(([place, bytes]) => `${place}${bytes}`);
  return fc.oneof(
    fc.record({
      method: weighted([4, fc.constant("GET")], [1, oddMethod]),
      path,
      headers: oddHeaders,
      body: fc.constant(""),
    }),
    raw.map((path) => ({ method: "GET", path, headers: {}, body: "" })),
  );
};

/** Draws requests of every kind to every operation. */
export const drawRequests = (operations: readonly Operation[]): fc.Arbitrary<FuzzRequest> =>
  weighted(
    [2, fc.oneof(...operations.map(drawValid))],
    [3, fc.oneof(...operations.map(drawSpoiled))],
    [1, drawStray(operations)],
  );

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

export const isDocumented = (status: number) => STATUSES.has(status) && (status < 500 || status === 503);

/** Describes the fault of an answer, whatever was asked; null if it has none. */
export const findFault = ({ method }: FuzzRequest, { status, headers, body }: HttpAnswer): string | null => {
  if (!isDocumented(status)) return "its status is not documented";
  const unknown = Object.keys(headers).find((name) => !HEADERS.has(name));
  if (unknown !== undefined) return `it has the header ${unknown}`;
  if (!/^[\w\-=]{1,255}$/.test(String(headers["x-request-id"] ?? "none"))) return "its request id is odd";
  if (headers["set-cookie"] && (headers["access-control-allow-origin"] || headers["cache-control"] !== "no-store")) {
    return "others may read or keep its cookie";
  }
  const type = String(headers["content-type"]);
  const isPage = type.startsWith("text/") || headers["content-encoding"];
  if (!isPage && STACK_TRACE.test(body)) return "it has a stack trace";
  if (status === 204 || status === 304 || method === "HEAD") return body === "" ? null : "it has a body";
  if (status < 300)
    return type.startsWith("text/html") && !headers["content-security-policy"] ? "it has no policy" : null;
  return findFaultOfProblem(status, headers, body);
};

const findFaultOfProblem = (status: number, headers: HttpAnswer["headers"], body: string): string | null => {
  if (headers["content-type"] !== "application/problem+json") return "it is not a problem document";
  const { type, title, status: told, detail, errors } = JSON.parse(body);
  const name = /^\/docs#problem-([a-z-]+)$/.exec(type)?.[1] as ProblemName;
  if (PROBLEMS[name]?.status !== status || PROBLEMS[name].title !== title || told !== status)
    return "its problem is unknown";
  if (typeof detail !== "string" || detail === "") return "it does not say why";
  if (status === 503 && !headers["retry-after"]) return "it does not say when to try again";
  if (status === 405 && !headers.allow) return "it does not list the allowed methods";
  const isNamed = Array.isArray(errors) && errors.length > 0;
  return isNamed === (name === "bad-parameter") ? null : "it does not list the bad parameters";
};
