import { expect } from "vitest";
import { CHECK } from "./api.ts";
import { findLongTurns } from "./bystander.ts";
import { addKey } from "./keys.ts";
import { listOperations, type Operation, readDocument } from "./openapi.ts";
import { createWallet, EXAMPLE_MESSAGE, PORTAL_OPERATIONS } from "./portal.ts";
import { test } from "./test.ts";
import { drawHeaders, drawWorstRequests, type WorstRequest } from "./worst-requests.ts";

const MAX_TURN_MS = 50;
/** A body of 1 MB takes longer to read, whatever is in it. */
const MAX_KEYED_TURN_MS = 100;
/** The largest bodies, without a key and with one. */
const MAX_BYTES = 32_768;
const MAX_KEYED_BYTES = 1_000_000;
/** Room for a real message, and no signature above its own limit. */
const MAX_PORTAL_BYTES = 30_000;

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
      for (const { headers, body, ...request } of draw(PORTAL_OPERATIONS, MAX_PORTAL_BYTES, isWanted)) {
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
