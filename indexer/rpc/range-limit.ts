const FIRST_GROWTH = 4;

/**
 * Learns how many blocks an endpoint accepts in one request for logs. A refused range is halved. After some accepted
 * requests a larger range is tried, because a range with many logs is refused sooner than others; each time in vain, the
 * next attempt comes later.
 */
export class RangeLimit {
  #blocks: number;
  #accepted = 0;
  #growsAfter = FIRST_GROWTH;
  #hasGrown = false;

  /** @param blocks the range to begin with */
  constructor(blocks = Number.POSITIVE_INFINITY) {
    this.#blocks = blocks;
  }

  get blocks(): number {
    return this.#blocks;
  }

  /** Records that the endpoint has refused a range. */
  shrink(refused: number) {
    this.#blocks = Math.max(1, Math.min(this.#blocks, Math.floor(refused / 2)));
    this.#accepted = 0;
    if (this.#hasGrown) this.#growsAfter *= 2;
    this.#hasGrown = false;
  }

  /** Records that the endpoint has accepted a range. */
  grow(accepted: number) {
    if (accepted < this.#blocks) return;
    this.#accepted++;
    this.#hasGrown = false;
    if (this.#accepted < this.#growsAfter) return;
    this.#blocks *= 2;
    this.#accepted = 0;
    this.#hasGrown = true;
  }
}
