import { type ApiMiddleware, nameCaller } from "../context.ts";
import { overloaded } from "../database/problems.ts";
import { Turns } from "../limits/turns.ts";
import type { Metrics } from "../metrics/metrics.ts";

/** Places for requests that are answered. A caller alone has 30 of them: enough to keep the process busy. */
const PLACES = 512;
/** Together with a query's deadline, a question ends within 2 s. */
const MAX_WAIT_MS = 600;
/** A page of a list, of up to 1,000 rows. */
const IS_LIST = /^\/(registry\/v[12]\/0x|wallets\/)/;
const LIST_WEIGHT = 2;
/** Bytes of a body for each place. A caller has two bodies of a million answered at a time. */
const BYTES_PER_PLACE = 100_000;

/** Bodies that are in memory, of up to 1 MB each. They may arrive slowly. */
const BODIES = 128;

/** Answers the requests of callers in turn, on every route: a flood of one caller hardly delays others. */
export const takeTurns = ({ turns: load }: Pick<Metrics, "turns">): ApiMiddleware => {
  const refuse = () =>
    overloaded("Too many of your requests wait while others are being looked up. Send fewer at a time.");
  const turns = new Turns({ places: PLACES, maxWaiting: 1_000, maxWaitMs: MAX_WAIT_MS, load, refuse });
  const bodies = new Turns({ places: BODIES, maxWaiting: 16, maxWaitMs: 5_000, refuse });
  return async (c, next) => {
    const caller = c.get("caller");
    const name = nameCaller(caller);
    let endTurn = await turns.take(name, IS_LIST.test(c.req.path) ? LIST_WEIGHT : 1);
    // Nobody reads the answer: the next request of the caller need not wait for it.
    if (c.env.incoming.socket.destroyed) {
      endTurn();
      return c.body(null, 408);
    }
    c.set("endTurn", () => endTurn());
    c.set("readOutsideTurn", async (read) => {
      endTurn();
      const forgetBody = await bodies.take(caller.client);
      try {
        const text = await read();
        endTurn = await turns.take(name, 1 + Math.floor(text.length / BYTES_PER_PLACE));
        return text;
      } finally {
        forgetBody();
      }
    });
    try {
      await next();
    } finally {
      endTurn();
    }
  };
};
