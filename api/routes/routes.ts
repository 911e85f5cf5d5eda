import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Handler } from "../exchange.ts";

/** Where routes are added, and described. */
export type Routes = {
  registry: OpenAPIHono["openAPIRegistry"];
  get: (path: string, handler: Handler) => void;
};
