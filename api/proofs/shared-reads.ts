import { BoundedMap } from "../../process/bounded.ts";

/** Remembers what was read by key, a bounded number of values, and shares reads in flight. Failures are forgotten. */
export class SharedReads<Value> {
  readonly #reads: BoundedMap<string, Promise<Value>>;

  constructor(max: number) {
    this.#reads = new BoundedMap(max);
  }

  /** @param read - reads the keys that are not known, in their order */
  getAll(keys: readonly string[], read: (unknown: string[]) => Promise<readonly Value[]>): Promise<Value[]> {
    const reads = new Map(keys.map((key) => [key, this.#reads.get(key)]));
    const unknown = [...reads].flatMap(([key, known]) => (known ? [] : key));
    const reading = unknown.length > 0 ? read(unknown) : Promise.resolve([]);
    for (const [place, key] of unknown.entries()) reads.set(key, this.#start(key, reading, place));
    for (const [key, value] of reads) {
      // The newest use is forgotten last.
      if (value) this.#reads.set(key, value);
    }
    return Promise.all(keys.map((key) => reads.get(key) as Promise<Value>));
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
