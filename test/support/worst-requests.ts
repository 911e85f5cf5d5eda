import { Agent } from "node:http";
import { expect } from "vitest";
import { type Api, CHECK } from "./api.ts";
import { createWallet, DEVELOPER_OPERATIONS, EXAMPLE_MESSAGE } from "./developers.ts";
import type { FuzzRequest } from "./fuzz.ts";
import { sendHttp } from "./http.ts";
import { addKey } from "./keys.ts";
import { listFields, listOperations, type Operation, readDocument, replaceIn } from "./openapi.ts";
import { test } from "./test.ts";

// The most expensive requests that the limits let through, drawn from the operations of an OpenAPI document: every
// parameter and every field of a body gets the longest, deepest and most repeated values.

export type WorstRequest = FuzzRequest & {
  /** What is attacked, and how. */
  name: string;
  headers: Record<string, string>;
};

/** Limits of the service, less some room for the rest of a request. */
const URL_LENGTH = 4_000;
const HEADER_BYTES = 7_500;

/** Values that a parser, a pattern or a conversion takes longest for. */
const HARD = /nested arrays|many keys|number 99|"9"|"URI: "|repeated|base64 of "[.~]/;
export const isHard = ({ name }: WorstRequest) => HARD.test(name);

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

const drawUrls = ({ method, path, parameters }: Operation): WorstRequest[] => {
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
  return urls.map(([name, url]) => ({ name, method, path: url, headers: {}, body: "" }));
};

const HEADERS = [
  ...["X-API-KEY", "X-Forwarded-For", "X-Request-Id", "Cookie", "Accept", "Accept-Encoding", "If-None-Match"],
  ...["Origin", "Content-Type", "Access-Control-Request-Headers", "Range"],
];

/** Draws headers of the largest size for a request. */
const drawHeaders = (path: string): WorstRequest[] =>
  HEADERS.flatMap((header) =>
    TEXTS.filter((text) => /^[\x20-\x7e]+$/.test(text)).map((text) => ({
      name: `${header}: ${JSON.stringify(text)} …`,
      method: "GET",
      path,
      headers: { [header]: fill(text, HEADER_BYTES - path.length).trim() || "x" },
      body: "",
    })),
  );

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

function* drawBodies({ method, path: url, body: content }: Operation, maxBytes: number): Generator<WorstRequest> {
  for (const { path } of content ? listFields(content.schema) : []) {
    const room = maxBytes - replaceIn(content?.example, path, "").length;
    for (const [how, write] of VALUES) {
      const body = replaceIn(content?.example, path, write(room));
      const name = `${path.join(".") || "body"}: ${how}`;
      // Some texts grow when they are encoded.
      if (Buffer.byteLength(body) > maxBytes) continue;
      yield { name, method, path: url, headers: { "Content-Type": "application/json" }, body };
    }
  }
}

/**
 * Draws requests for every operation, one at a time: together, the bodies would fill the memory.
 * @param maxBytes - the largest body that is let through
 */
export function* drawWorstRequests(operations: readonly Operation[], maxBytes: number): Generator<WorstRequest> {
  for (const operation of operations) {
    // Headers are read before parameters, in the same way for every operation.
    const isBare = operation.method === "GET" && operation.parameters.length === 0;
    for (const drawn of [isBare ? drawHeaders(operation.path) : drawUrls(operation), drawBodies(operation, maxBytes)]) {
      for (const each of drawn) yield { ...each, name: `${operation.name}, ${each.name}` };
    }
  }
}

// How long they keep the event loop.

/**
 * Measures the longest turn of this process's event loop during a task, in milliseconds of processor time: other
 * processes on the machine do not count.
 */
const measureLongestTurn = async <Result>(task: () => Promise<Result>) => {
  let longestMs = 0;
  let isOver = false;
  let last = process.cpuUsage();
  const watch = () => {
    const { user, system } = process.cpuUsage(last);
    longestMs = Math.max(longestMs, (user + system) / 1000);
    last = process.cpuUsage();
    if (!isOver) setImmediate(watch);
  };
  setImmediate(watch);
  const result = await task().finally(() => {
    isOver = true;
  });
  return { result, longestMs };
};

/** Sends requests one by one to an API in this process. Returns those whose longest turn was too long, five times. */
const findLongTurns = async (
  api: Api,
  requests: Iterable<WorstRequest> | AsyncIterable<WorstRequest>,
  { headers = {}, maxMs }: { headers?: Record<string, string>; maxMs: number },
): Promise<string[]> => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const measure = async (request: WorstRequest) => {
    const { result, longestMs } = await measureLongestTurn(() =>
      sendHttp(api.port, { ...request, headers: { ...request.headers, ...headers }, agent }, request.body),
    );
    expect(result.status, `${request.name}: ${result.body.slice(0, 200)}`).toBeLessThan(500);
    return longestMs;
  };
  const long: string[] = [];
  let count = 0;
  let longest = { ms: 0, name: "" };
  for await (const request of requests) {
    count++;
    let ms = await measure(request);
    // A garbage collection may fall into some of them.
    for (let again = 0; again < 4 && ms >= maxMs; again++) ms = Math.min(ms, await measure(request));
    if (ms > longest.ms) longest = { ms, name: request.name };
    if (ms >= maxMs) long.push(`${ms.toFixed(0)} ms: ${request.name}`);
  }
  agent.destroy();
  console.log(`${count} requests, the longest turn took ${longest.ms.toFixed(1)} ms: ${longest.name}`);
  expect(count).toBeGreaterThan(0);
  return long;
};

const MAX_TURN_MS = 50;
/** A body of 1 MB takes longer to read, whatever is in it. */
const MAX_KEYED_TURN_MS = 100;
/** The largest bodies, without a key and with one. */
const MAX_BYTES = 32_768;
const MAX_KEYED_BYTES = 1_000_000;
/** Room for a real message, and no signature above its own limit. */
const MAX_DEVELOPER_BYTES = 30_000;

const OPERATIONS = listOperations(readDocument());

type IsWanted = (request: WorstRequest) => boolean;

function* draw(operations: Operation[], maxBytes: number, isWanted: IsWanted): Generator<WorstRequest> {
  for (const request of drawWorstRequests(operations, maxBytes)) if (isWanted(request)) yield request;
}

/** Tests that no request keeps the event loop, and with it everybody else, for long. @param isWanted - selects requests */
export const testWorstTurns = (isWanted: IsWanted): void => {
  test("no request without a key takes a long turn, whatever its parameters, headers and body", async ({ api }) => {
    expect(await findLongTurns(api, draw(OPERATIONS, MAX_BYTES, isWanted), { maxMs: MAX_TURN_MS })).toEqual([]);
    expect(await findLongTurns(api, drawHeaders(CHECK).filter(isWanted), { maxMs: MAX_TURN_MS })).toEqual([]);
  });

  test("no request to the developer page takes a long turn", async ({ api, owner }) => {
    /** Signatures belong to the message of a sign-in that waits for one. */
    const drawSignedIn = async function* (): AsyncGenerator<WorstRequest> {
      for (const { headers, body, ...request } of draw(DEVELOPER_OPERATIONS, MAX_DEVELOPER_BYTES, isWanted)) {
        const isSignature = request.name.includes("signature:");
        const message = isSignature ? await owner.begin(createWallet().address) : EXAMPLE_MESSAGE;
        yield {
          ...request,
          headers: { ...headers, Origin: api.url, Cookie: owner.cookieHeader },
          body: body.replace(JSON.stringify(EXAMPLE_MESSAGE), JSON.stringify(message)),
        };
      }
    };
    expect(await findLongTurns(api, drawSignedIn(), { maxMs: MAX_TURN_MS })).toEqual([]);
  });

  test("no body with a key takes a long turn", async ({ api, database }) => {
    const { key } = await addKey(database);
    const requests = draw(
      OPERATIONS.filter(({ body }) => body),
      MAX_KEYED_BYTES,
      isWanted,
    );
    const options = { headers: { "X-API-KEY": key }, maxMs: MAX_KEYED_TURN_MS };
    expect(await findLongTurns(api, requests, options)).toEqual([]);
  });
};
