import { Agent } from "node:http";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Api, CHECK, createSampleDatabase, FRESH_FOR_A_DAY, launchApi } from "../support/api.ts";
import { sendHttp } from "../support/http.ts";
import { addKey } from "../support/keys.ts";
import { measureLongestTurn } from "../support/longest-turn.ts";
import type { Description } from "../support/openapi.ts";
import { createWallet, signInVisitor } from "../support/portal.ts";
import {
  drawHeaders,
  drawWorstPortalRequests,
  drawWorstRequests,
  EXAMPLE_MESSAGE,
  type WorstRequest,
} from "../support/worst-requests.ts";

// No request keeps the event loop, and with it everybody else, for long. test/slow/alone/bystander.test.ts measures
// what another client notices.

const MAX_TURN_MS = 50;
/** A body of 1 MB takes longer to read, whatever is in it. */
const MAX_KEYED_TURN_MS = 100;
/** The largest bodies, without a key and with one. */
const MAX_BYTES = 32_768;
const MAX_KEYED_BYTES = 1_000_000;

let api: Api;
let key: string;
let document: Description;
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
beforeAll(async () => {
  const databaseUrl = await createSampleDatabase();
  api = await launchApi({ databaseUrl, env: FRESH_FOR_A_DAY });
  const database = new pg.Client(databaseUrl);
  await database.connect();
  ({ key } = await addKey(database));
  await database.end();
  document = (await (await api.get("/openapi.json")).json()) as Description;
});
afterAll(async () => {
  agent.destroy();
  await api?.stop();
});

/** Sends requests one by one. Returns those whose longest turn was too long, five times. */
const findSlow = async (
  requests: Iterable<WorstRequest> | AsyncIterable<WorstRequest>,
  { headers = {}, maxMs = MAX_TURN_MS }: { headers?: Record<string, string>; maxMs?: number } = {},
) => {
  const send = (request: WorstRequest) =>
    sendHttp(api.port, { ...request, headers: { ...request.headers, ...headers }, agent }, request.body);
  const measure = async (request: WorstRequest) => {
    const { result, longestMs } = await measureLongestTurn(() => send(request));
    expect(result.status, `${request.name}: ${result.body.slice(0, 200)}`).toBeLessThan(500);
    return longestMs;
  };
  const slow: string[] = [];
  let count = 0;
  let longest = { ms: 0, name: "" };
  for await (const request of requests) {
    count++;
    let ms = await measure(request);
    // A garbage collection may fall into some of them.
    for (let again = 0; again < 4 && ms >= maxMs; again++) ms = Math.min(ms, await measure(request));
    if (ms > longest.ms) longest = { ms, name: request.name };
    if (ms >= maxMs) slow.push(`${ms.toFixed(0)} ms: ${request.name}`);
  }
  console.log(`${count} requests, the longest turn took ${longest.ms.toFixed(1)} ms: ${longest.name}`);
  return slow;
};

test("no request without a key takes a long turn, whatever its parameters, headers and body", async () => {
  expect(await findSlow(drawWorstRequests(document, MAX_BYTES))).toEqual([]);
  expect(await findSlow(drawHeaders(CHECK))).toEqual([]);
});

/** Requests of a visitor who is signed in; signatures belong to the message of a sign-in that waits for one. */
async function* drawSignedIn(): AsyncGenerator<WorstRequest> {
  const visitor = await signInVisitor(api);
  for (const { headers, body, ...request } of drawWorstPortalRequests(api.url)) {
    const isSignature = request.name.includes("signature:");
    const message = isSignature ? await visitor.begin(createWallet().address) : EXAMPLE_MESSAGE;
    yield {
      ...request,
      headers: { ...headers, Cookie: visitor.cookieHeader },
      body: body.replace(JSON.stringify(EXAMPLE_MESSAGE), JSON.stringify(message)),
    };
  }
}

test("no request to the developer page takes a long turn", async () => {
  expect(await findSlow(drawSignedIn())).toEqual([]);
});

test("no body with a key takes a long turn", async () => {
  const { "/registry/checks": checks } = document.paths;
  if (!checks) throw new Error("The document lacks the operation with a body.");
  const bodies = { ...document, paths: { "/registry/checks": checks } };
  const options = { headers: { "X-API-KEY": key }, maxMs: MAX_KEYED_TURN_MS };
  expect(await findSlow(drawWorstRequests(bodies, MAX_KEYED_BYTES), options)).toEqual([]);
});
