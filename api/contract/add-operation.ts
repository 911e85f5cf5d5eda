import type { createRoute } from "@hono/zod-openapi";
import type { Handler } from "hono";
import type { ApiApp, ApiEnv } from "../context.ts";
import { methodNotAllowed } from "../problem.ts";

/**
 * Adds a route, and its contract to the OpenAPI document. Does not use Hono's validators: they know one name per
 * parameter, stop at the first part of a request with a bad one, and pass on values that cannot be decoded.
 */
export const addOperation = (app: ApiApp, route: ReturnType<typeof createRoute>, handler: Handler<ApiEnv>): void => {
  app.openAPIRegistry.registerPath(route);
  const path = route.getRoutingPath();
  if (route.method === "get") {
    addRoute(app, path, handler);
    return;
  }
  const method = route.method.toUpperCase();
  app.on(method, path, handler);
  app.all(path, () => {
    throw methodNotAllowed([method, "OPTIONS"]);
  });
};

/** Adds a route for GET. Other methods are a 405. */
export const addRoute = (app: ApiApp, path: string, ...handlers: Handler<ApiEnv>[]): void => {
  app.get(path, ...(handlers as [Handler<ApiEnv>]));
  app.all(path, () => {
    throw methodNotAllowed();
  });
};
