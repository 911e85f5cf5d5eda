/** One part of a stack: a process, a server, a chain. */
export type Part = {
  stop: () => Promise<void>;
  /** Settles when the part exits. Absent if the part cannot exit before this process does. */
  exited?: Promise<unknown>;
};

/** Runs parts together: the stack fails when one of them exits unexpectedly. */
export class Stack {
  readonly #starting = new Set<Promise<unknown>>();
  readonly #parts: Part[] = [];
  #isStopping = false;
  #fail: (error: Error) => void = () => {};

  /** Rejects when a part exits unexpectedly, with the reason. */
  readonly failed = new Promise<never>((_, reject) => {
    this.#fail = reject;
  });

  constructor() {
    this.failed.catch(() => {});
  }

  /** Starts a part and adds it to the stack. */
  add<P extends Part>(name: string, start: () => Promise<P> | P): Promise<P> {
    const starting = (async () => {
      const part = await start();
      this.#parts.push(part);
      const fail = (reason?: Error) => {
        if (!this.#isStopping) this.#fail(new Error(`${name} exited unexpectedly.`, { cause: reason }));
      };
      part.exited?.then(() => fail(), fail);
      return part;
    })();
    this.#starting.add(starting);
    return starting;
  }

  /** Stops all parts, the newest first, including those that are still starting. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.allSettled(this.#starting);
    // A part that has exited may fail to stop; the others are stopped anyway.
    for (const part of this.#parts.reverse()) await part.stop().catch(() => {});
  }
}
