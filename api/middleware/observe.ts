import { matchedRoutes } from "hono/route";
import type { Logger } from "pino";
import type { ApiMiddleware } from "../context.ts";
import type { Metrics } from "../metrics/metrics.ts";

/** The route of whatever matches none. */
const UNKNOWN = "*";

/** How a route is called in logs, metrics and the OpenAPI document. */
const nameOf = (path: string): string => (path === UNKNOWN ? "unknown" : path.replaceAll(/:(\w+)/g, "{$1}"));

type Route = { path: string };

/** Middleware has a path with an asterisk. */
const isHandler = ({ path }: Route): boolean => !path.includes("*");

/**
 * Counts each request, and writes a line for it. By its route, not its URL: wallets are nobody's business, and people put
 * API keys into the strangest places.
 */
export class Observer {
  readonly #log: Logger;
  readonly #metrics: Pick<Metrics, "addRoute">;
  /** By their paths. */
  readonly #routes = new Map<string, { name: string; count: (status: number, seconds: number) => void }>();

  constructor(log: Logger, metrics: Pick<Metrics, "addRoute">) {
    this.#log = log;
    this.#metrics = metrics;
  }

  /** Has routes counted, those of handlers. */
  addRoutes(routes: readonly Route[]): void {
    const paths = new Set([UNKNOWN, ...routes.filter(isHandler).map(({ path }) => path)]);
    for (const path of paths)
      this.#routes.set(path, { name: nameOf(path), count: this.#metrics.addRoute(nameOf(path)) });
  }

  readonly observe: ApiMiddleware = async (c, next) => {
    const startedAt = performance.now();
    await next();
    const ms = Math.round((performance.now() - startedAt) * 1000) / 1000;
    const { status } = c.res;
    const route = this.#routes.get(matchedRoutes(c).findLast(isHandler)?.path ?? UNKNOWN);
    route?.count(status, ms / 1000);
    const line = { requestId: c.get("requestId"), method: c.req.method, route: route?.name, status, ms };
    if (status >= 500) this.#log.warn(line, "Request failed");
    else this.#log.info(line, "Request");
  };
}
