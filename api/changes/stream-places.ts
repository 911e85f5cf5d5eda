import type { Caller } from "../context.ts";
import { overloaded } from "../database/problems.ts";
import { Problem } from "../problem.ts";

/** Streams in one process, some 30 MB for each thousand. */
const MAX_STREAMS = 2_000;
/** Streams of one address without a key, and of one owner of keys. */
const MAX_PER_CLIENT = 10;
const MAX_PER_OWNER = 100;

const RETRY_SECONDS = 30;

/** Bounds the open streams of each caller, and all of them. */
export class StreamPlaces {
  readonly #taken = new Map<string, number>();
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** Takes a place, or throws a problem. @returns a function that gives it back */
  take({ client, key }: Caller): () => void {
    const [name, max] = key === null ? [client, MAX_PER_CLIENT] : [key.owner, MAX_PER_OWNER];
    const taken = this.#taken.get(name) ?? 0;
    if (taken >= max) {
      const who = key === null ? "An address without an API key" : "The owner of an API key";
      throw new Problem("rate-limited", `${who} may have ${max} open streams. Close one of them.`, {
        headers: { "Retry-After": String(RETRY_SECONDS) },
      });
    }
    if (this.#count >= MAX_STREAMS) throw overloaded("Too many streams are open. Try again in a moment.");
    this.#count++;
    this.#taken.set(name, taken + 1);
    return () => {
      this.#count--;
      const left = (this.#taken.get(name) ?? 1) - 1;
      if (left > 0) this.#taken.set(name, left);
      else this.#taken.delete(name);
    };
  }
}
