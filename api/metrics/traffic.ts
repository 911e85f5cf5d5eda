import { PROBLEMS } from "../problem.ts";
import { Tally } from "./tally.ts";

/** In seconds: from half a millisecond, which is what a check takes, to longer than any request may. */
const DURATIONS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];

/** Told from the start, as 0: Prometheus misses the first of what was not there before. */
const STATUSES = new Set<number>([200, 204, ...Object.values(PROBLEMS).map(({ status }) => status)]);
const HIGHEST_STATUS = 599;

type RouteTraffic = {
  /** By status. */
  counts: Float64Array;
  durations: Tally;
};

/** The requests that were answered, by route and status. There are as many series as routes, whatever is asked. */
export class Traffic {
  readonly #routes = new Map<string, RouteTraffic>();

  /** @param route - a pattern, never a URL */
  addRoute(route: string): void {
    if (this.#routes.has(route)) return;
    this.#routes.set(route, { counts: new Float64Array(HIGHEST_STATUS + 1), durations: new Tally(DURATIONS) });
  }

  count(route: string, status: number, seconds: number): void {
    const traffic = this.#routes.get(route);
    if (!traffic) return;
    traffic.counts[status] = (traffic.counts[status] ?? 0) + 1;
    traffic.durations.observe(seconds);
  }

  *readCounts(): Iterable<{ route: string; status: number; count: number }> {
    for (const [route, { counts }] of this.#routes) {
      for (const [status, count] of counts.entries()) {
        if (count > 0 || STATUSES.has(status)) yield { route, status, count };
      }
    }
  }

  *readDurations(): Iterable<[route: string, durations: Tally]> {
    for (const [route, { durations }] of this.#routes) yield [route, durations];
  }
}
