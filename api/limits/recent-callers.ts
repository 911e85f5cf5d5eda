/** The callers of the current second and of the one before. */
export class RecentCallers {
  readonly #now: () => number;
  #second = 0;
  #current = new Set<string>();
  #previous = new Set<string>();

  /** @param now - a monotonic clock in milliseconds */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Records a caller.
   * @returns true if there are others
   */
  record(name: string): boolean {
    const second = Math.floor(this.#now() / 1000);
    if (second !== this.#second) {
      this.#previous = second === this.#second + 1 ? this.#current : new Set();
      this.#current = new Set();
      this.#second = second;
    }
    this.#current.add(name);
    return this.#current.size > 1 || this.#previous.size > Number(this.#previous.has(name));
  }
}
