import { createMiddleware } from "hono/factory";
import type { RequestIdVariables } from "hono/request-id";
import { matchedRoutes } from "hono/route";
import type { Logger } from "pino";

/**
 * A line for each request. By its route, not its URL: wallets are nobody's business, and people put
 * API keys into the strangest places.
 */
export const requestLog = (log: Logger) =>
  createMiddleware<{ Variables: RequestIdVariables }>(async (context, next) => {
    const startedAt = performance.now();
    await next();
    const { status } = context.res;
    const route = matchedRoutes(context).at(-1)?.path;
    const line = {
      requestId: context.get("requestId"),
      method: context.req.method,
      route: route === "/*" ? "unknown" : route,
      status,
      ms: Math.round((performance.now() - startedAt) * 1000) / 1000,
    };
    if (status >= 500) log.warn(line, "Request failed");
    else log.info(line, "Request");
  });
