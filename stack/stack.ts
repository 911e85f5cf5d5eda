/** Something that runs beside us. */
export type Part = {
  stop: () => Promise<void>;
  /** Settles when the part ends by itself. */
  ended: Promise<unknown>;
};

/** What runs until it is told to stop, as a part. */
export const runPart = (run: (signal: AbortSignal) => Promise<void>): Part => {
  const stopping = new AbortController();
  const ended = run(stopping.signal);
  return {
    ended,
    stop: async () => {
      stopping.abort();
      await ended.catch(() => {});
    },
  };
};

/** Parts that live and die together. */
export class Stack {
  readonly #starting = new Set<Promise<unknown>>();
  readonly #parts: Part[] = [];
  #isStopping = false;
  #fail: (error: Error) => void = () => {};

  /** Rejects when a part ends by itself, with the reason. */
  readonly failed = new Promise<never>((_, reject) => {
    this.#fail = reject;
  });

  constructor() {
    this.failed.catch(() => {});
  }

  /** Takes in a part that is being started. */
  add<P extends Part>(name: string, start: () => Promise<P>): Promise<P> {
    const starting = start().then((part) => {
      this.#parts.push(part);
      const fail = (reason?: Error) => {
        if (!this.#isStopping) this.#fail(new Error(`${name} ended by itself.`, { cause: reason }));
      };
      part.ended.then(() => fail(), fail);
      return part;
    });
    this.#starting.add(starting);
    return starting;
  }

  /** Ends all parts, the newest first, also those that are still starting. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.allSettled(this.#starting);
    // What has ended by itself may have nothing left to stop; the others are stopped all the same.
    for (const part of this.#parts.reverse()) await part.stop().catch(() => {});
  }
}
