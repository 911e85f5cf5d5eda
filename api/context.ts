import type { HttpBindings } from "@hono/node-server";
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context, MiddlewareHandler } from "hono";

/** A key, or the address of a client without one. */
export type Caller = {
  name: string;
  /** Address of the client. */
  client: string;
  /** Owner of the key: an account, or for an operator's key the key itself. Null without a key. */
  owner: string | null;
  /** True if it asks a question, false for a page, a document or a health check. */
  asks: boolean;
};

/** Hono's environment: the types of `c.env` and `c.var`. */
export type ApiEnv = {
  /** Node's request and response. */
  Bindings: HttpBindings;
  Variables: {
    requestId: string;
    /** Rate-limit headers; absent with a known API key, and on routes without a limit. */
    rateLimit?: Record<string, string>;
    /** Who sent the request: set once it is admitted. The client alone where keys do not count. */
    caller: Caller;
    /** Counts further requests of the caller, all or none, for a body with several. Throws a 429 if they are too many. */
    charge: (count: number) => Promise<void>;
    /** Ends the request's turn, for a body or a response that takes long. Otherwise the turn ends with the handler. */
    endTurn: () => void;
    /** Takes a turn again. */
    takeTurn: () => Promise<void>;
    /** Only pages of this service may read the response. */
    isPrivate?: boolean;
  };
};

export type ApiApp = OpenAPIHono<ApiEnv>;
export type ApiContext = Context<ApiEnv>;
export type ApiMiddleware = MiddlewareHandler<ApiEnv>;
