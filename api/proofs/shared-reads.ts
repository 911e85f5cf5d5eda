import { BoundedMap } from "../../process/bounded.ts";

/** Remembers what was read by key, a bounded number of values, and shares reads in flight. Failures are forgotten. */
export class SharedReads<Value> {
  readonly #reads: BoundedMap<string, Promise<Value>>;

  constructor(max: number) {
    this.#reads = new BoundedMap(max);
  }

  /** @param read - reads the keys that are not known, in their order */
  getAll(keys: readonly string[], read: (unknown: string[]) => Promise<readonly Value[]>): Promise<Value[]> {
    const unknown = [...new Set(keys)].filter((key) => !this.#reads.has(key));
    const reading = unknown.length > 0 ? read(unknown) : Promise.resolve([]);
    const started = new Map(unknown.map((key, place) => [key, this.#start(key, reading, place)]));
    return Promise.all(
      keys.map((key) => {
        const value = started.get(key) ?? this.#reads.get(key);
        if (!value) throw new Error(`${key} is neither known nor read.`);
        // The newest use is forgotten last.
        this.#reads.set(key, value);
        return value;
      }),
    );
  }

  async get(key: string, read: () => Promise<Value>): Promise<Value> {
    const [value] = await this.getAll([key], async () => [await read()]);
    return value as Value;
  }

  #start(key: string, reading: Promise<readonly Value[]>, place: number): Promise<Value> {
    const value = reading.then((values) => {
      const found = values[place];
      if (found === undefined) throw new Error(`${key} was not read.`);
      return found;
    });
    value.catch(() => {
      if (this.#reads.get(key) === value) this.#reads.delete(key);
    });
    return value;
  }
}
