import type { HttpBindings } from "@hono/node-server";
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context, MiddlewareHandler } from "hono";

/** Who sent a request. */
export type Caller = {
  /** Address of the client. */
  client: string;
  /** Its API key, where keys count. The owner is an account, or for an operator's key the key itself. */
  key: { id: string; owner: string } | null;
  /** Why the key that it sent is not accepted: its requests are a 401. */
  keyProblem?: string;
};

/** The name by which callers share: an owner of keys, or an address. */
export const nameCaller = ({ client, key }: Caller): string => key?.owner ?? client;

/** Hono's environment: the types of `c.env` and `c.var`. */
export type ApiEnv = {
  /** Node's request and response. */
  Bindings: HttpBindings;
  Variables: {
    requestId: string;
    /** Rate-limit headers; absent with a known API key, and on routes without a limit. */
    rateLimit?: Record<string, string>;
    caller: Caller;
    /** Counts further requests of the caller, all or none, for a body with several. Throws a 429 if they are too many. */
    charge: (count: number) => Promise<void>;
    /** Ends the request's turn, for a response that takes long. Otherwise the turn ends with the handler. */
    endTurn: () => void;
    /** Reads a body outside of the request's turn: a client may send it slowly. */
    readOutsideTurn: (read: () => Promise<string>) => Promise<string>;
    /** Only pages of this service may read the response. */
    isPrivate?: boolean;
  };
};

export type ApiApp = OpenAPIHono<ApiEnv>;
export type ApiContext = Context<ApiEnv>;
export type ApiMiddleware = MiddlewareHandler<ApiEnv>;
