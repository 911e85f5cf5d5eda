import type { HttpBindings } from "@hono/node-server";
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context, MiddlewareHandler } from "hono";

/** What goes with a request on its way through the app. */
export type ApiEnv = {
  /** Node's own request and response. */
  Bindings: HttpBindings;
  Variables: {
    requestId: string;
    /** The rate-limit headers; absent with a known API key, and where there is no limit. */
    rateLimit?: Record<string, string>;
    /** Whether the answer is for our own pages alone. */
    isPrivate?: boolean;
  };
};

export type ApiApp = OpenAPIHono<ApiEnv>;
export type ApiContext = Context<ApiEnv>;
export type ApiMiddleware = MiddlewareHandler<ApiEnv>;
