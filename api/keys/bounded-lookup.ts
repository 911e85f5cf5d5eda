import { BoundedSet } from "../../process/bounded.ts";
import { overloaded } from "../database/problems.ts";
import type { Decision } from "../limits/sliding-window.ts";
import { Turns } from "../limits/turns.ts";
import type { KeyDirectory, KeyLookup } from "./key-directory.ts";

/** Keys of one client that are looked up at a time. */
const MAX_AT_ONCE = 4;
const MAX_WAIT_MS = 600;
const MAX_SUSPECTS = 10_000;

type Options = {
  keys: KeyDirectory;
  /** Counts a request of a client against the rate limit. */
  take: (client: string) => Promise<Decision>;
};

/**
 * Looks up keys that are not cached, a few of each client at a time. An unknown key counts against the client's rate
 * limit: once that is exceeded, only keys that this process has found before cause a query.
 */
export class BoundedLookup {
  readonly #options: Options;
  readonly #turns = new Turns({
    places: 16 * MAX_AT_ONCE,
    maxWaiting: 1_000,
    maxWaitMs: MAX_WAIT_MS,
    refuse: () => overloaded("Too many API keys are being looked up. Try again in a moment."),
  });
  /** Clients that have exceeded the rate limit with unknown keys. */
  readonly #suspects = new BoundedSet<string>(MAX_SUSPECTS);

  constructor(options: Options) {
    this.#options = options;
  }

  /** @returns the key unless the client has exceeded the limit, and the limit's decision unless the key is known */
  async find(text: string, client: string, connection: object): Promise<{ key?: KeyLookup; decision?: Decision }> {
    const { keys, take } = this.#options;
    // A key in use never waits for made-up ones. It takes a query a minute.
    const isInUse = keys.hasFound(text);
    const endTurn = isInUse ? () => {} : await this.#turns.take(client, MAX_AT_ONCE);
    try {
      const early = this.#suspects.has(client) && !isInUse ? await take(client) : undefined;
      if (early?.isAdmitted === false) return { decision: early };
      const key = await keys.find(text, connection);
      if (key.isKnown) return { key };
      const decision = early ?? (await take(client));
      this.#suspects.delete(client);
      if (!decision.isAdmitted) this.#suspects.add(client);
      return { key, decision };
    } finally {
      endTurn();
    }
  }
}
