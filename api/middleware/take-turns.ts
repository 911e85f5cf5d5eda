import type { ApiMiddleware } from "../context.ts";
import { overloaded } from "../database/problems.ts";
import { RecentCallers } from "../limits/recent-callers.ts";
import { Turns } from "../limits/turns.ts";
import type { Metrics } from "../metrics/metrics.ts";

/** Requests that are answered at a time. A caller that asks alone may have all of them. */
const PLACES = 512;
/** Requests of one caller while there are others, who wait for these, and to pages: they are no others. */
const MAX_BESIDE_OTHERS = 12;
/** Together with a query's deadline, a question ends within 2 s. */
const MAX_WAIT_MS = 600;

/** Answers the requests of callers in turn, on every route: a flood of one caller hardly delays others. */
export const takeTurns = ({ turns: load }: Pick<Metrics, "turns">): ApiMiddleware => {
  const callers = new RecentCallers();
  const turns = new Turns({
    places: PLACES,
    maxWaiting: 1_000,
    maxWaitMs: MAX_WAIT_MS,
    load,
    refuse: () => overloaded("Too many of your requests wait to be answered. Send fewer at a time."),
  });
  return async (c, next) => {
    const { name, asks } = c.get("caller");
    const takeTurn = () => turns.take(name, asks && !callers.record(name) ? PLACES : MAX_BESIDE_OTHERS);
    let release = await takeTurn();
    c.set("endTurn", () => release());
    c.set("takeTurn", async () => {
      release = await takeTurn();
    });
    try {
      await next();
    } finally {
      release();
    }
  };
};
