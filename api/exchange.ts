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
  /** Headers that say what is left of the limit; none for whoever has none. */
  rateLimit: string;
  /** Whether the answer is for our own pages alone. */
  isPrivate: boolean;
};

/** What a request is answered with. */
export type Reply = {
  status: number;
  /** As they are sent: a line for each. */
  headers: string;
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
    rateLimit: "",
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

const NEVER_IN_A_HEADER = /[^\t\x20-\x7e]/;

/** Headers as they are sent. */
export const headerLines = (headers: Readonly<Record<string, string>>): string => {
  let lines = "";
  for (const [name, value] of Object.entries(headers)) {
    if (NEVER_IN_A_HEADER.test(value)) throw new Error(`${name} has a character that no header may have.`);
    lines += `${name}: ${value}\r\n`;
  }
  return lines;
};

/** No other origin is told anything, and nothing is kept. */
const PRIVATE_HEADERS = {
  "Cache-Control": "no-store",
  "Cross-Origin-Resource-Policy": "same-origin",
  "X-Content-Type-Options": "nosniff",
};

const PRIVATE_LINES = headerLines(PRIVATE_HEADERS);

/** Every other answer is for any origin to read. */
const PUBLIC_LINES = headerLines({
  "Access-Control-Allow-Origin": "*",
  "Access-Control-Expose-Headers": EXPOSED_HEADERS,
});

/**
 * The answer to a request.
 * @param headers - of this answer alone. As lines they cost least: whoever makes those vouches for them, and that they
 * repeat none that all answers have.
 */
export const respond = (
  { requestId, rateLimit, isPrivate }: Exchange,
  status: number,
  body: Reply["body"],
  headers: Readonly<Record<string, string>> | string = {},
): Reply => {
  const areLines = typeof headers === "string";
  // What is said of one answer counts for more than what is said of all that are private.
  const own = areLines ? headers : headerLines(isPrivate ? { ...PRIVATE_HEADERS, ...headers } : headers);
  const common = isPrivate ? (areLines ? PRIVATE_LINES : "") : PUBLIC_LINES;
  return { status, headers: `${common}X-Request-Id: ${requestId}\r\n${rateLimit}${own}`, body };
};
