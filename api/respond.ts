import type { StatusCode } from "hono/utils/http-status";
import type { ApiContext } from "./context.ts";
import { type Problem, problemDocument } from "./problem.ts";
import type { Freshness } from "./queries/freshness.ts";

/** What a page of another origin may read of an answer. */
export const EXPOSED_HEADERS = [
  "X-Indexed-Block",
  "X-Indexed-Block-Timestamp",
  "X-Finalized-Block",
  "RateLimit-Policy",
  "RateLimit",
  "Retry-After",
  "Link",
  "X-Request-Id",
];

/** Every answer is for any origin to read, */
const EXPOSED = EXPOSED_HEADERS.join();

/** but for those that are for our own pages: no other origin is told anything, and nothing is kept. */
const PRIVATE_HEADERS = {
  "Cache-Control": "no-store",
  "Cross-Origin-Resource-Policy": "same-origin",
  "X-Content-Type-Options": "nosniff",
};

export type Body = string | Buffer<ArrayBuffer> | ReadableStream | null;

/**
 * The answer to a request, with the headers that all have. They go into one literal, which the server writes as it is:
 * with Hono's c.header() for each, an answer takes an eighth longer.
 */
export const respond = (
  c: ApiContext,
  status: number,
  body: Body,
  headers: Readonly<Record<string, string>> = {},
): Response => {
  const requestId = c.get("requestId");
  if (c.get("isPrivate")) {
    // With what was set by then: cookies.
    return c.newResponse(body as string, status as StatusCode, {
      ...PRIVATE_HEADERS,
      "X-Request-Id": requestId,
      ...headers,
    });
  }
  const all: Record<string, string> = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": EXPOSED,
    "X-Request-Id": requestId,
    ...c.get("rateLimit"),
    ...headers,
  };
  // Hono answers a HEAD without the body that its length would be known by.
  if (c.req.method === "HEAD" && (typeof body === "string" || Buffer.isBuffer(body))) {
    all["Content-Length"] = String(Buffer.byteLength(body));
  }
  return new Response(body, { status, headers: all });
};

export const respondJson = (c: ApiContext, content: unknown, headers = {}, status = 200): Response =>
  respond(c, status, JSON.stringify(content), { "Content-Type": "application/json", ...headers });

export const respondProblem = (c: ApiContext, problem: Problem): Response => {
  const { status, headers, body } = problemDocument(problem);
  return respond(c, status, body, headers);
};

/** Those of an answer from the index: the block that it is true at, and that nobody may keep it. */
export const answerHeaders = ({ indexedBlock, indexedBlockTimestamp, finalizedBlock }: Freshness) => ({
  "Content-Type": "application/json",
  "Cache-Control": "no-store",
  "X-Indexed-Block": indexedBlock,
  "X-Indexed-Block-Timestamp": indexedBlockTimestamp,
  "X-Finalized-Block": finalizedBlock,
});
