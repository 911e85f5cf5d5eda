import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";

/** A request on its way, and what its answer will say whatever it is. */
export type Exchange = {
  context: Context<Env>;
  incoming: IncomingMessage;
  outgoing: ServerResponse;
  method: string;
  /** As it was sent: path and query, or all of it. */
  url: string;
  /** The pattern of the path that it was matched by. */
  route: string;
  requestId: string;
  startedAt: number;
  /** What is left of the limit; null for whoever has none. */
  rateLimit: { policy: string; state: string } | null;
};

/** That of whatever matches none. */
export const UNKNOWN_ROUTE = "unknown";

/** Answers a request: at once where it can. */
export type Handler = (exchange: Exchange) => Response | Promise<Response>;

/** Does something before others do, or instead of them. */
export type Middleware = (next: Handler) => Handler;

export type Env = { Bindings: HttpBindings };

/** Ids of this process's own: a number each, after what tells it from all other processes. */
const PROCESS_ID = randomBytes(8).toString("hex");
let requests = 0;

/** A request as it comes in. It keeps the id that a proxy has given it. */
export const openExchange = (context: Context<Env>, route: string): Exchange => {
  const { incoming, outgoing } = context.env as { incoming: IncomingMessage; outgoing: ServerResponse };
  const given = incoming.headers["x-request-id"];
  return {
    context,
    incoming,
    outgoing,
    method: incoming.method ?? "GET",
    url: incoming.url ?? "/",
    route,
    requestId: typeof given === "string" && /^[\w\-=]{1,255}$/.test(given) ? given : `${PROCESS_ID}-${++requests}`,
    startedAt: performance.now(),
    rateLimit: null,
  };
};

/** What a page of another origin may read of an answer. */
const EXPOSED_HEADERS = [
  "X-Indexed-Block",
  "X-Indexed-Block-Timestamp",
  "X-Finalized-Block",
  "RateLimit-Policy",
  "RateLimit",
  "Retry-After",
  "Link",
  "X-Request-Id",
].join();

/**
 * The answer to a request. Its headers are a plain object from one literal: the server writes that as it
 * is, while the `Headers` that Hono makes, or an object that grows, cost as much as the rest of an answer.
 */
export const respond = (
  { requestId, rateLimit }: Exchange,
  status: number,
  body: string | ReadableStream | null,
  headers: Readonly<Record<string, string>> = {},
): Response =>
  new Response(body, {
    status,
    headers:
      rateLimit === null
        ? {
            // Every answer is for any origin to read.
            "Access-Control-Allow-Origin": "*",
            "Access-Control-Expose-Headers": EXPOSED_HEADERS,
            "X-Request-Id": requestId,
            ...headers,
          }
        : {
            "Access-Control-Allow-Origin": "*",
            "Access-Control-Expose-Headers": EXPOSED_HEADERS,
            "X-Request-Id": requestId,
            "RateLimit-Policy": rateLimit.policy,
            RateLimit: rateLimit.state,
            ...headers,
          },
  });
