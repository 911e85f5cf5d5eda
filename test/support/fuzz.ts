import fc from "fast-check";
import { PROBLEMS, type ProblemName } from "../../api/problem.ts";
import { VAULT } from "./api.ts";
import {
  cursor,
  encode,
  garbage,
  harmlessHeaders,
  invalidTextOf,
  ODD_JSON,
  oddBody,
  oddContentType,
  oddHeaders,
  oddMethod,
  rawPath,
  textOf,
  textsOf,
  weighted,
  words,
} from "./fuzz-values.ts";
import type { HttpAnswer } from "./http.ts";
import { isArray, isOfType, listFields, type Operation, type Parameter, replaceIn, type Schema } from "./openapi.ts";

// Requests drawn from the operations of an OpenAPI document: valid ones, ones that break the contract in one place, and
// ones with garbage anywhere. A new operation is drawn the day it exists. worst-requests.ts draws the most expensive ones.

export type FuzzRequest = {
  method: string;
  path: string;
  headers: Record<string, string | string[]>;
  body: string;
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
        .filter((json) => !(json === "true" && isOfType(field, "boolean")))
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

// Answers: what every one has to be, whatever was asked.

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
  if (status < 300 && type.startsWith("text/html") && !headers["content-security-policy"]) return "it has no policy";
  if (status >= 400 && type !== "application/problem+json") return "it is not a problem document";
  if (status === 204 || status === 304 || method === "HEAD") return body === "" ? null : "it has a body";
  return status < 300 ? null : findFaultOfProblem(status, headers, body);
};

const findFaultOfProblem = (status: number, headers: HttpAnswer["headers"], body: string): string | null => {
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
