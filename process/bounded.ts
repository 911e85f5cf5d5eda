/** A map with a maximum size: a new entry beyond it replaces the one that was set longest ago. */
export class BoundedMap<Key, Value> extends Map<Key, Value> {
  readonly #oldestFirst = this.keys();

  /** @param max - may change with the size of the values; applies from the next set() on */
  constructor(public max: number) {
    super();
  }

  /** Sets an entry, and makes it the newest. */
  override set(key: Key, value: Value): this {
    this.delete(key);
    super.set(key, value);
    removeOldest(this, this.#oldestFirst, this.max);
    return this;
  }
}

/** A set with a maximum size: a new value beyond it replaces the one that was added longest ago. */
export class BoundedSet<Value> extends Set<Value> {
  readonly #max: number;
  readonly #oldestFirst = this.keys();

  constructor(max: number) {
    super();
    this.#max = max;
  }

  override add(value: Value): this {
    super.add(value);
    removeOldest(this, this.#oldestFirst, this.#max);
    return this;
  }
}

/** @param oldestFirst - one iterator for all calls: a new one would pass all entries removed before, which V8 keeps for a while */
const removeOldest = (
  entries: Map<unknown, unknown> | Set<unknown>,
  oldestFirst: Iterator<unknown>,
  max: number,
): void => {
  while (entries.size > max) entries.delete(oldestFirst.next().value);
};
