import type { Description } from "./openapi.ts";

// The most expensive requests that the limits let through, drawn from the OpenAPI document: every parameter and every
// field of a body gets the longest, deepest and most repeated values. A new operation is attacked the day it exists.

export type WorstRequest = {
  /** What is attacked, and how. */
  name: string;
  method: string;
  path: string;
  headers: Record<string, string>;
  body: string;
};

/** Limits of the service, less some room for the rest of a request. */
const URL_LENGTH = 4_000;
const HEADER_BYTES = 7_500;

type Schema = {
  $ref?: string;
  type?: string | string[];
  anyOf?: Schema[];
  properties?: Record<string, Schema>;
  items?: Schema;
};
type Operation = NonNullable<Description["paths"][string]["get"]>;

/** Texts that parsers, patterns and conversions may take long for, as URLs and bodies can repeat them. */
const TEXTS = [
  ...["9", "0x", "f", "A", "-", "=", "[", "{", "0.", "~0.0", ".0.0", ",", "URI: ", "a=1;", '"a",', "q=0,", "*/*,"],
  ...["\u{1f525}", "\ud800", "\0", "\\", '"', "%", "%00", "%zz", "&", " ", "\n"],
];

/** Fills a length with a text. */
const fill = (text: string, length: number, prefix = ""): string =>
  prefix + text.repeat(Math.max(1, Math.floor((length - prefix.length) / text.length)));

const encode = (text: string) => encodeURIComponent(Buffer.from(text).toString());

const base64 = (text: string) => Buffer.from(text).toString("base64url");

/** Attacks on one query parameter, as they stand in a URL. */
const drawQueries = (name: string, length: number): [how: string, query: string][] => [
  ...TEXTS.map((text): [string, string] => [
    `${JSON.stringify(text)} …`,
    `${name}=${fill(encode(text), length - name.length - 1)}`,
  ]),
  ["0xff …", `${name}=${fill("f", length - name.length - 1, "0x")}`],
  // Cursors are base64.
  ...["~0.0", ".0.0", "9", "\0"].map((text): [string, string] => [
    `base64 of ${JSON.stringify(text)} …`,
    `${name}=${base64(fill(text, (length * 3) / 4 - 20, "0".repeat(16)))}`,
  ]),
  ["repeated", fill(`${name}=1&`, length)],
  ["repeated with other values", Array.from({ length: length / 12 }, (_, index) => `${name}=${index}`).join("&")],
  ["malformed and repeated", fill(`${name}=%zz&`, length)],
];

const drawUrls = (path: string, { parameters = [] }: Operation): WorstRequest[] => {
  const exampleOf = ({ schema }: (typeof parameters)[number]) => String(schema.example ?? "1");
  const fillPath = (values: Record<string, string> = {}) =>
    parameters
      .filter((parameter) => parameter.in === "path")
      .reduce((filled, each) => filled.replace(`{${each.name}}`, values[each.name] ?? exampleOf(each)), path);
  const required = (but?: string) =>
    parameters
      .filter((parameter) => parameter.in === "query" && parameter.required && parameter.name !== but)
      .map((parameter) => `${parameter.name}=${exampleOf(parameter)}`)
      .join("&");
  const room = URL_LENGTH - fillPath().length - required().length;
  const urls = parameters.flatMap(({ name, in: place }): [string, string][] =>
    place === "path"
      ? TEXTS.map((text) => [`${name}: ${JSON.stringify(text)} …`, fillPath({ [name]: fill(encode(text), room) })])
      : drawQueries(name, room).map(([how, query]) => [`${name}: ${how}`, `${fillPath()}?${required(name)}&${query}`]),
  );
  const requests = urls.map(([how, url]) => ({ name: how, method: "GET", path: url, headers: {}, body: "" }));
  // Headers are read before parameters, in the same way for every operation.
  return parameters.length === 0 ? drawHeaders(path) : requests;
};

const HEADERS = [
  ...["X-API-KEY", "X-Forwarded-For", "X-Request-Id", "Cookie", "Accept", "Accept-Encoding", "If-None-Match"],
  ...["Origin", "Content-Type", "Access-Control-Request-Headers", "Range"],
];

/** Draws headers of the largest size for a request. */
export const drawHeaders = (path: string): WorstRequest[] =>
  HEADERS.flatMap((header) =>
    TEXTS.filter((text) => /^[\x20-\x7e]+$/.test(text)).map((text) => ({
      name: `${header}: ${JSON.stringify(text)} …`,
      method: "GET",
      path,
      headers: { [header]: fill(text, HEADER_BYTES - path.length).trim() || "x" },
      body: "",
    })),
  );

type Field = { path: readonly string[]; schema: Schema };

/** Lists the fields of a schema, with the names and array items that lead to them. */
const listFields = (schema: Schema, resolve: (schema: Schema) => Schema, path: readonly string[] = []): Field[] => {
  const { properties = {}, items, anyOf = [] } = resolve(schema);
  return [
    { path, schema },
    ...Object.entries(properties).flatMap(([name, field]) => listFields(field, resolve, [...path, name])),
    ...(items ? listFields(items, resolve, [...path, "item"]) : []),
    ...anyOf.flatMap((each) => listFields(each, resolve, path).slice(1)),
  ];
};

/** Writes JSON with one value replaced by a text that need not be JSON. */
const replaceIn = (example: unknown, path: readonly string[], json: string): string => {
  const [name, ...rest] = path;
  if (name === undefined) return json;
  if (Array.isArray(example)) {
    // The last example has the most fields.
    const others = example.slice(0, -1).map((each) => JSON.stringify(each));
    return `[${[...others, replaceIn(example.at(-1), rest, json)].join()}]`;
  }
  const fields: Record<string, unknown> = { ...(example as object) };
  const written = { ...Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, JSON.stringify(value)])) };
  written[name] = replaceIn(fields[name], rest, json);
  return `{${Object.entries(written)
    .map(([key, value]) => `${JSON.stringify(key)}:${value}`)
    .join()}}`;
};

/** Values of a field as JSON, of some length. */
const VALUES: [how: string, write: (length: number) => string][] = [
  ...TEXTS.map((text): [string, (length: number) => string] => [
    `text ${JSON.stringify(text)} …`,
    (length) => `"${fill(JSON.stringify(text).slice(1, -1), length - 2)}"`,
  ]),
  ["text 0xff …", (length) => `"${fill("f", length - 2, "0x")}"`],
  ["number 99 …", (length) => fill("9", length)],
  ["number 0.00 …", (length) => fill("0", length, "0.")],
  ["nested arrays", (length) => `${"[".repeat(length / 2)}${"]".repeat(length / 2)}`],
  ["nested objects", (length) => `${fill('{"a":', (length * 5) / 6)}1${"}".repeat(length / 6 - 1)}`],
  ["open brackets", (length) => "[".repeat(length)],
  ["many keys", (length) => `{${list(length / 9 - 1, (index) => `"${index.toString(36)}":1`)}}`],
  ["numeric keys", (length) => `{${list(length / 12 - 1, (index) => `"${index * 97}":1`)}}`],
  ["many arrays", (length) => `[${fill("[],", length - 6)}[]]`],
  ["many objects", (length) => `[${fill("{},", length - 6)}{}]`],
  ["many numbers", (length) => `[${fill("1,", length - 4)}1]`],
  ["many keys of one name", (length) => `{${fill('"a":1,', length - 8)}"a":1}`],
];

const list = (length: number, write: (index: number) => string) =>
  Array.from({ length }, (_, index) => write(index)).join();

type Content = { schema: Schema; example: unknown };

function* drawBodies(
  request: Pick<WorstRequest, "method" | "path">,
  { schema, example }: Content,
  resolve: (schema: Schema) => Schema,
  maxBytes: number,
): Generator<WorstRequest> {
  for (const { path } of listFields(schema, resolve)) {
    const room = maxBytes - replaceIn(example, path, "").length;
    for (const [how, write] of VALUES) {
      const body = replaceIn(example, path, write(room));
      const name = `${path.join(".") || "body"}: ${how}`;
      // Some texts grow when they are encoded.
      if (Buffer.byteLength(body) > maxBytes) continue;
      yield { ...request, name, headers: { "Content-Type": "application/json" }, body };
    }
  }
}

/** The message of session requests: a test may replace it by one that it was given. */
export const EXAMPLE_MESSAGE = "x wants you to sign in";

/** The operations of the developer page, which the document leaves out. */
const PORTAL: Description["paths"] = Object.fromEntries(
  Object.entries({
    challenge: { address: `0x${"1".repeat(40)}`, chainId: 1 },
    session: { message: EXAMPLE_MESSAGE, signature: `0x${"1b".repeat(65)}` },
    keys: { name: "key" },
  }).map(([name, example]) => {
    const properties = Object.fromEntries(Object.keys(example).map((field) => [field, {}]));
    const content = { "application/json": { example, schema: { properties } } };
    return [`/developers/api/${name}`, { post: { operationId: name, requestBody: { content }, responses: {} } }];
  }),
);

/** Draws bodies for every operation of the developer page, as its own page would send them. */
export function* drawWorstPortalRequests(origin: string): Generator<WorstRequest> {
  // Room for a real message, and no signature above its own limit.
  for (const request of drawWorstRequests({ openapi: "3.1.0", paths: PORTAL }, 30_000)) {
    yield { ...request, headers: { ...request.headers, Origin: origin } };
  }
}

/**
 * Draws requests for every operation of a document, one at a time: together, the bodies would fill the memory.
 * @param maxBytes - the largest body that is let through
 */
export function* drawWorstRequests(document: Description, maxBytes: number): Generator<WorstRequest> {
  const schemas = (document.components?.schemas ?? {}) as Record<string, Schema>;
  const resolve = (schema: Schema): Schema =>
    schema.$ref === undefined ? schema : (schemas[schema.$ref.split("/").at(-1) ?? ""] ?? {});
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [name, operation] of Object.entries(methods)) {
      const { schema, example = {} } = operation.requestBody?.content["application/json"] ?? {};
      const request = { method: name.toUpperCase(), path };
      const drawn = schema ? drawBodies(request, { schema, example }, resolve, maxBytes) : drawUrls(path, operation);
      for (const each of drawn) yield { ...each, name: `${name} ${path}, ${each.name}` };
    }
  }
}
