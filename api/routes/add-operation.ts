import type { createRoute } from "@hono/zod-openapi";
import type { Handler } from "hono";
import type { ApiApp, ApiEnv } from "../context.ts";
import { methodNotAllowed } from "../problem.ts";

/**
 * Adds a route, and its contract to the OpenAPI document. Its parameters are not read by Hono's own validators, which
 * know one name for each, stop at the first place that has a bad one, and take what cannot be decoded as it stands.
 */
export const addOperation = (app: ApiApp, route: ReturnType<typeof createRoute>, handler: Handler<ApiEnv>): void => {
  app.openAPIRegistry.registerPath(route);
  addRoute(app, route.getRoutingPath(), handler);
};

/** Adds a route that answers GET, and says so to any other method. */
export const addRoute = (app: ApiApp, path: string, ...handlers: Handler<ApiEnv>[]): void => {
  app.get(path, ...(handlers as [Handler<ApiEnv>]));
  app.all(path, () => {
    throw methodNotAllowed();
  });
};
