import { matchedRoutes } from "hono/route";
import type { Logger } from "pino";
import type { ApiMiddleware } from "../context.ts";
import type { Metrics } from "../metrics/metrics.ts";

/** Path of requests that match no route. */
const UNMATCHED = "*";

/** Formats a path as a route label for logs and metrics, as in the OpenAPI document. */
const labelOf = (path: string): string => (path === UNMATCHED ? "unknown" : path.replaceAll(/:(\w+)/g, "{$1}"));

type Route = { path: string };

/** Paths of middleware have an asterisk. */
const isHandler = ({ path }: Route): boolean => !path.includes("*");

/**
 * Counts and logs each request by its route. Never by its URL: it has wallets, and people put API keys into the
 * strangest places.
 */
export class Observer {
  readonly #log: Logger;
  readonly #metrics: Pick<Metrics, "addRoute">;
  /** By path. */
  readonly #routes = new Map<string, { label: string; count: (status: number, seconds: number) => void }>();

  constructor(log: Logger, metrics: Pick<Metrics, "addRoute">) {
    this.#log = log;
    this.#metrics = metrics;
  }

  /** Creates the metrics of all handlers' routes. */
  addRoutes(routes: readonly Route[]): void {
    const paths = new Set([UNMATCHED, ...routes.filter(isHandler).map(({ path }) => path)]);
    for (const path of paths) {
      const label = labelOf(path);
      this.#routes.set(path, { label, count: this.#metrics.addRoute(label) });
    }
  }

  readonly observe: ApiMiddleware = async (c, next) => {
    const startedAt = performance.now();
    await next();
    const ms = Math.round((performance.now() - startedAt) * 1000) / 1000;
    const { status } = c.res;
    const route = this.#routes.get(matchedRoutes(c).findLast(isHandler)?.path ?? UNMATCHED);
    route?.count(status, ms / 1000);
    const line = { requestId: c.get("requestId"), method: c.req.method, route: route?.label, status, ms };
    if (status >= 500) this.#log.warn(line, "Request failed");
    else this.#log.info(line, "Request");
  };
}
