import { matchedRoutes } from "hono/route";
import type { Logger } from "pino";
import type { ApiMiddleware } from "../context.ts";
import type { Metrics } from "../metrics/metrics.ts";

/** The route of whatever matches none. */
export const UNKNOWN_ROUTE = "unknown";

/** How a route is called in logs, metrics and the OpenAPI document. */
export const nameOfRoute = (path: string): string => path.replaceAll(/:(\w+)/g, "{$1}");

/** Middleware has a path with an asterisk. */
export const isHandler = ({ path }: { path: string }): boolean => !path.includes("*");

/**
 * Counts each request, and writes a line for it. By its route, not its URL: wallets are nobody's business, and people put
 * API keys into the strangest places.
 */
export const observe =
  (log: Logger, { countRequest }: Pick<Metrics, "countRequest">): ApiMiddleware =>
  async (c, next) => {
    const startedAt = performance.now();
    await next();
    const ms = Math.round((performance.now() - startedAt) * 1000) / 1000;
    const path = matchedRoutes(c).findLast(isHandler)?.path;
    const route = path === undefined ? UNKNOWN_ROUTE : nameOfRoute(path);
    const { status } = c.res;
    countRequest(route, status, ms / 1000);
    const line = { requestId: c.get("requestId"), method: c.req.method, route, status, ms };
    if (status >= 500) log.warn(line, "Request failed");
    else log.info(line, "Request");
  };
