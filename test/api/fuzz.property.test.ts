import { Agent } from "node:http";
import fc from "fast-check";
import { expect } from "vitest";
import { CHECK } from "../support/api.ts";
import {
  drawSpoiled,
  drawStray,
  drawValid,
  type FuzzRequest,
  findFault,
  listViolations,
  type Violation,
} from "../support/fuzz.ts";
import { type HttpAnswer, sendBytes, sendHttp } from "../support/http.ts";
import { listOperations, type Operation, readDocument } from "../support/openapi.ts";
import { PROPERTY_RUNS } from "../support/random.ts";
import { test as base } from "../support/test.ts";
import { drawWorstRequests } from "../support/worst-requests.ts";

// Every operation of docs/openapi.json, with requests that are drawn from the document. test/slow/long/fuzz.test.ts
// sends many more, with sessions, keys and raw bytes.

const DEADLINE_MS = 5_000;
const BATCH_SIZE = 20;
/** Few bulk requests of a client may wait at a time. */
const CONNECTIONS = 4;
const OPERATIONS = listOperations(readDocument());
/** For each operation. */
const RUNS = Math.ceil(PROPERTY_RUNS / OPERATIONS.length);

// The API logs a warning for every failure on its side.
const test = base
  .extend("env", { LOG_LEVEL: "warn" })
  .extend("send", { scope: "file" }, async ({ api }, { onCleanup }) => {
    const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
    onCleanup(() => agent.destroy());
    return ({ method, path, headers, body }: FuzzRequest): Promise<HttpAnswer> => {
      const signal = AbortSignal.timeout(DEADLINE_MS);
      // Node's client would send the body of some methods without its length.
      const all = body === "" ? headers : { ...headers, "Content-Length": String(Buffer.byteLength(body)) };
      // Node's client refuses other characters in a URL.
      if (!/[^\x21-\xff]/.test(path)) return sendHttp(api.port, { method, path, headers: all, agent, signal }, body);
      const lines = Object.entries({ Host: "api.example", ...all, Connection: "close" });
      const head = [`${method} ${path} HTTP/1.1`, ...lines.map(([name, value]) => `${name}: ${value}`), "", body];
      return sendBytes(api.port, Buffer.from(head.join("\r\n"), "latin1"), signal);
    };
  });

/** Answers to requests for a block of the future: the only failures on the API's side, which it logs. */
let futureBlocks = 0;
test.afterAll(async ({ api }) => {
  expect(await (await api.get(CHECK)).text()).toBe("true");
  const lines = api.output().split("\n").filter(Boolean);
  expect(lines.filter((line) => JSON.parse(line).status !== 503)).toEqual([]);
  expect(lines).toHaveLength(futureBlocks);
});

type Send = (request: FuzzRequest) => Promise<HttpAnswer>;

/** Sends a request. Throws if its answer has a fault of its own, or one that `findOther` describes. */
const ask = async (send: Send, request: FuzzRequest, findOther: (answer: HttpAnswer) => string | null) => {
  const answer = await send(request).catch((error: Error) => error);
  const fault =
    answer instanceof Error
      ? `no answer: ${answer.message}`
      : (findFault(request, answer) ??
        (answer.headers["access-control-allow-origin"] === "*" ? findOther(answer) : "not every origin may read it"));
  if (fault === null && !(answer instanceof Error)) return answer;
  const [asked, answered] = [request, answer].map((value) => JSON.stringify(value).slice(0, 2_000));
  throw new Error(`${fault}\n  asked: ${asked}\n  answer: ${answered}`);
};

/** A check's answer, or a balance as a number or a string of any length. */
const SCALAR = /^(true|false|0|[1-9]\d*|"(0|[1-9]\d*)")$/;

/** Describes how an answer differs from the response of the document. */
const findFaultOf200 = (
  { responses, findMismatch }: Operation,
  { status, headers, body }: HttpAnswer,
  { method, path }: Pick<FuzzRequest, "method" | "path">,
) => {
  // The client has it in its cache.
  if (status === 304) return null;
  // There is no node for proofs here. test/api/proofs.test.ts has one.
  const asksForProof = new URLSearchParams(path.split("?")[1]).getAll("proof").includes("true");
  if (asksForProof) return status === 400 ? null : "there is no proof of it";
  if (status !== 200) return "a valid request is not answered";
  if (headers["content-type"] !== "application/json") return "it is not JSON";
  const required = Object.entries(responses[200]?.headers ?? {}).filter(([, header]) => header.required);
  const bad = required.find(([name, { schema }]) =>
    schema?.type === "integer" ? !/^\d+$/.test(String(headers[name.toLowerCase()])) : !headers[name.toLowerCase()],
  );
  if (bad) return `it lacks the header ${bad[0]}`;
  if (method === "HEAD") return null;
  const hasContent = /^[{[]/.test(body) ? !/"unanswered":\[[^\]]/.test(body) : SCALAR.test(body);
  return hasContent ? findMismatch(body) : "it is not a complete answer";
};

/** Follows the pages of a list: their cursors cannot be drawn. */
const followPages = async (send: Send, operation: Operation, answer: HttpAnswer): Promise<void> => {
  const [, next] = /<(.*?)>; rel="next"/.exec(String(answer.headers.link)) ?? [];
  if (next === undefined) return;
  const request = { method: "GET", path: next, headers: {}, body: "" };
  await ask(send, request, (page) => findFaultOf200(operation, page, request));
};

/** Uses values of an arbitrary, some at a time. The error shows the request, so that shrinking is not needed. */
const check = async <Value>(arbitrary: fc.Arbitrary<Value>, runs: number, use: (value: Value) => Promise<unknown>) => {
  const size = Math.min(runs, BATCH_SIZE);
  const batches = fc.array(arbitrary, { minLength: size, maxLength: size });
  const property = fc.asyncProperty(batches, async (batch) => {
    await Promise.all(batch.map(use));
  });
  const { failed, seed, errorInstance } = await fc.check(property, {
    numRuns: Math.ceil(runs / size),
    endOnFailure: true,
  });
  if (failed) throw new Error(`The seed is ${seed}.`, { cause: errorInstance });
};

test.for(OPERATIONS)("$name answers valid requests as its schema says", async (operation, { send }) => {
  await check(drawValid(operation), RUNS, async (request) => {
    const answer = await ask(send, request, (each) => findFaultOf200(operation, each, request));
    await followPages(send, operation, answer);
  });
});

type Answers = { answers?: { problem?: { status: number; errors?: unknown } }[] };

const findFaultOfRefusal = ({ methods }: Operation, violation: Violation, { status, headers, body }: HttpAnswer) => {
  if (status !== violation.status) return `${violation.name}: its status is not ${violation.status}`;
  if (status === 405) {
    const allowed = [...methods, ...(methods.includes("GET") ? ["HEAD"] : []), "OPTIONS"].join(", ");
    if (headers.allow !== allowed) return `it does not allow ${allowed}`;
  }
  if (violation.parameter === undefined) return null;
  const problem = violation.isOfItem ? (JSON.parse(body) as Answers).answers?.at(-1)?.problem : JSON.parse(body);
  const named: { parameter: string }[] = problem?.errors ?? [];
  return named.length > 0 && named.every(({ parameter }) => parameter === violation.parameter)
    ? null
    : `it does not name ${violation.parameter} alone`;
};

test.for(OPERATIONS)("$name refuses every violation of its contract, and names it", async (operation, { send }) => {
  const violations = listViolations(operation);
  const oneOfEach = fc.tuple(...violations.map(({ requests }) => requests));
  await check(oneOfEach, Math.ceil(RUNS / violations.length), (requests) =>
    Promise.all(
      violations.map((violation, index) =>
        ask(send, requests[index] as FuzzRequest, (answer) => findFaultOfRefusal(operation, violation, answer)),
      ),
    ),
  );
});

/** Statuses of requests with garbage. */
const REFUSALS = [400, 401, 404, 405, 414, 431];
const isExpected = ({ status, body }: HttpAnswer): boolean => {
  if (status !== 503) return [200, 204, 304, 413, 415, ...REFUSALS].includes(status);
  futureBlocks++;
  return body.includes("#problem-not-indexed");
};

test(`${PROPERTY_RUNS} requests with garbage get an answer or a problem document within 5 s each`, async ({ send }) => {
  const statuses = new Set<number>();
  const requests = fc.oneof(...OPERATIONS.map(drawSpoiled), drawStray(OPERATIONS), drawStray(OPERATIONS));
  await check(requests, PROPERTY_RUNS, async (request) => {
    const { status } = await ask(send, request, (each) => (isExpected(each) ? null : "its status is unexpected"));
    statuses.add(status);
  });
  expect([...statuses], "every refusal is among them").toEqual(expect.arrayContaining([200, 204, ...REFUSALS]));
});

test("an operation that is added to the document is drawn, with each parameter and field", () => {
  const parameters = [{ name: "depth", in: "query" as const, schema: { type: "integer", maximum: 9 } }];
  const schema = { properties: { note: { type: "string" } }, required: ["note"] };
  const content = { "application/json": { schema, example: { note: "x" } } };
  const post = { operationId: "added", parameters, requestBody: { content }, responses: { 200: {} } };
  const [added] = listOperations({ paths: { "/added": { post } } });
  if (!added) throw new Error("The operation is not listed.");
  for (const arbitrary of [
    drawValid(added),
    drawSpoiled(added),
    ...listViolations(added).map(({ requests }) => requests),
  ]) {
    expect(fc.sample(arbitrary, 1)[0]?.path).toContain("/added");
  }
  expect(fc.sample(drawValid(added), 50).some(({ path }) => path.includes("depth="))).toBe(true);
  expect(listViolations(added).map(({ name }) => name)).toEqual(
    expect.arrayContaining(["depth is invalid", "note is missing", "method GET", "large body"]),
  );
  const worst = [...drawWorstRequests([added], 1_000)].map(({ name }) => name);
  for (const attacked of ["depth: ", "note: "]) expect(worst.some((name) => name.includes(attacked))).toBe(true);
});
