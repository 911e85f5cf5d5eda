import fc from "fast-check";
import { AIRDROP, VAULT } from "./api.ts";
import {
  address,
  cursor,
  encode,
  garbage,
  harmlessHeaders,
  hex,
  ODD_JSON,
  oddBody,
  oddContentType,
  oddHeaders,
  oddMethod,
  rawPath,
  uint256,
  unicode,
  weighted,
  words,
} from "./fuzz-values.ts";
import type { Operation, Parameter, Schema } from "./openapi.ts";

// Requests drawn from the operations of an OpenAPI document: valid ones, ones that break the contract in one place, and
// ones with garbage anywhere. A new operation is drawn the day it exists. worst-requests.ts draws the most expensive ones.

export type FuzzRequest = {
  method: string;
  path: string;
  headers: Record<string, string | string[]>;
  body: string;
};

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
    return fc.oneof(fc.constantFrom(...beyond), other).filter((text) => !/^\d+$/.test(text) || beyond.includes(text));
  }
  const pattern = schema.pattern === undefined ? null : new RegExp(schema.pattern, "i");
  const nearly = textOf(name, schema).map((text) => `${text}-`);
  return pattern && fc.oneof(nearly, other).filter((text) => !pattern.test(text));
};

// Valid requests.

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
  const isQuery = parameter.in === "query";
  const malformed = fc.tuple(words("% %% %a %zz %ff %c0%80 %ed%a0%80 %u0061"));
  // Dots and slashes would make another path.
  const invalid = invalidTextOf(name, schema)
    ?.filter((text) => isQuery || !/^\.{0,2}$/.test(text))
    .map(encodeURIComponent);
  const valid = textsOf(parameter).map(([text = ""]) => encodeURIComponent(text));
  return [
    violate("is malformed", malformed),
    ...(invalid ? [violate("is invalid", fc.tuple(invalid))] : []),
    ...(isQuery && parameter.required ? [violate("is missing", fc.constant([]))] : []),
    ...(isQuery && invalid ? [violate("is valid, then invalid", fc.tuple(valid, invalid))] : []),
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

/** Draws a body with a field of any value, or cut off, or no JSON at all. */
const spoilBody = ({ body }: Operation): fc.Arbitrary<string> => {
  const fields = listFields(body?.schema ?? {}).map(({ path }) => path);
  const json = fc
    .tuple(fc.constantFrom(...fields), fc.constantFrom(...ODD_JSON))
    .map(([path, value]) => replaceIn(body?.example, path, JSON.stringify(value)));
  const cut = fc.tuple(json, fc.nat(1_000)).map(([text, length]) => text.slice(0, length));
  return weighted([4, json], [1, cut], [1, oddBody]);
};

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
      type: weighted([4, fc.constant("application/json")], [1, oddContentType]),
      body: operation.body
        ? fc.oneof(drawBody(operation), spoilBody(operation))
        : weighted([20, fc.constant("")], [1, oddBody]),
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
  return fc.oneof(
    fc.record({
      method: weighted([4, fc.constant("GET")], [1, oddMethod]),
      path,
      headers: oddHeaders,
      body: fc.constant(""),
    }),
    rawPath.map((path) => ({ method: "GET", path, headers: {}, body: "" })),
  );
};

/** Draws requests of every kind to every operation. */
export const drawRequests = (operations: readonly Operation[]): fc.Arbitrary<FuzzRequest> =>
  weighted(
    [2, fc.oneof(...operations.map(drawValid))],
    [3, fc.oneof(...operations.map(drawSpoiled))],
    [1, drawStray(operations)],
  );
