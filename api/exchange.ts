import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";

/** A request as a server has read it. */
export type Incoming = Pick<IncomingMessage, "method" | "url" | "httpVersion" | "headers" | "socket">;

/** Where its answer goes. */
export type Outgoing = {
  readonly headersSent: boolean;
  /** Whether there is nobody any more to answer. */
  readonly destroyed: boolean;
  destroy: () => void;
  /** Sends the answer. One that comes in parts has no length yet; if it breaks off, so does the connection. */
  reply: (reply: Reply) => void;
};

/** Answers a request, whatever it is. */
export type Answer = (incoming: Incoming, outgoing: Outgoing) => void;

/** A request on its way, and what its answer will say whatever it is. */
export type Exchange = {
  incoming: Incoming;
  outgoing: Outgoing;
  method: string;
  /** As it was sent: path and query, or all of it. */
  url: string;
  path: string;
  /** The pattern of the path that it was matched by, and what stands where that varies. */
  route: string;
  varying: string;
  requestId: string;
  startedAt: number;
  /** What is left of the limit; null for whoever has none. */
  rateLimit: { policy: string; state: string } | null;
  /** Whether the answer is for our own pages alone. */
  isPrivate: boolean;
};

/** What a request is answered with. */
export type Reply = {
  status: number;
  headers: Readonly<Record<string, string | number>>;
  body: string | Buffer | Readable | null;
};

/** That of whatever matches none. */
export const UNKNOWN_ROUTE = "unknown";

/** Answers a request: at once where it can. */
export type Handler = (exchange: Exchange) => Reply | Promise<Reply>;

/** Does something before others do, or instead of them. */
export type Middleware = (next: Handler) => Handler;

/** Ids of this process's own: a number each, after what tells it from all other processes. */
const PROCESS_ID = randomBytes(8).toString("hex");
let requests = 0;

/** A request as it comes in. It keeps the id that a proxy has given it. */
export const openExchange = (
  incoming: Incoming,
  outgoing: Outgoing,
  path: string,
  route: string,
  varying: string,
): Exchange => {
  const given = incoming.headers["x-request-id"];
  return {
    incoming,
    outgoing,
    method: incoming.method ?? "GET",
    url: incoming.url ?? "/",
    path,
    route,
    varying,
    requestId: typeof given === "string" && /^[\w\-=]{1,255}$/.test(given) ? given : `${PROCESS_ID}-${++requests}`,
    startedAt: performance.now(),
    rateLimit: null,
    isPrivate: false,
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

/** No other origin is told anything, and nothing is kept. */
const PRIVATE_HEADERS = {
  "Cache-Control": "no-store",
  "Cross-Origin-Resource-Policy": "same-origin",
  "X-Content-Type-Options": "nosniff",
};

/**
 * The answer to a request. Its headers are a plain object from one literal: one that grows costs V8 more
 * than Node takes to write it.
 */
export const respond = (
  { requestId, rateLimit, isPrivate }: Exchange,
  status: number,
  body: Reply["body"],
  headers: Readonly<Record<string, string>> = {},
): Reply => ({
  status,
  headers: isPrivate
    ? { ...PRIVATE_HEADERS, "X-Request-Id": requestId, ...headers }
    : rateLimit === null
      ? {
          // Every other answer is for any origin to read.
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
  body,
});
