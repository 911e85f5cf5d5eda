const MIN_CAPACITY = 1024;

/**
 * A queue of the admissions of all clients in order of time. Each links to the same client's next one.
 *
 * An admission's id is its number, which wraps at 2^32. Its slot is the id modulo the capacity, a power of two: ids stay
 * valid when the ring grows.
 */
export class AdmissionRing<Client> {
  #times = new Float64Array(MIN_CAPACITY);
  #nextIds = new Int32Array(MIN_CAPACITY);
  #clients: (Client | undefined)[] = new Array(MIN_CAPACITY).fill(undefined);
  #oldestId = 0;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  get oldestId(): number {
    return this.#oldestId;
  }

  timeOf(id: number): number {
    return this.#times[this.#slotOf(id)] ?? 0;
  }

  clientOf(id: number): Client | undefined {
    return this.#clients[this.#slotOf(id)];
  }

  /** Returns the id of the same client's next admission. */
  nextOf(id: number): number {
    return this.#nextIds[this.#slotOf(id)] ?? 0;
  }

  link(id: number, nextId: number): void {
    this.#nextIds[this.#slotOf(id)] = nextId;
  }

  /** Adds an admission. Returns its id. */
  push(client: Client, time: number): number {
    if (this.#length === this.#times.length) this.#resize(this.#length * 2);
    const id = (this.#oldestId + this.#length) | 0;
    const slot = this.#slotOf(id);
    this.#times[slot] = time;
    this.#clients[slot] = client;
    this.#length++;
    return id;
  }

  removeOldest(): void {
    this.#clients[this.#slotOf(this.#oldestId)] = undefined;
    this.#oldestId = (this.#oldestId + 1) | 0;
    this.#length--;
  }

  /** Frees the memory of an empty ring. */
  shrink(): void {
    if (this.#length === 0 && this.#times.length > MIN_CAPACITY) this.#resize(MIN_CAPACITY);
  }

  #slotOf(id: number): number {
    return id & (this.#times.length - 1);
  }

  #resize(capacity: number): void {
    const times = new Float64Array(capacity);
    const nextIds = new Int32Array(capacity);
    const clients: (Client | undefined)[] = new Array(capacity).fill(undefined);
    for (let index = 0; index < this.#length; index++) {
      const id = this.#oldestId + index;
      const slot = id & (capacity - 1);
      times[slot] = this.timeOf(id);
      nextIds[slot] = this.nextOf(id);
      clients[slot] = this.clientOf(id);
    }
    this.#times = times;
    this.#nextIds = nextIds;
    this.#clients = clients;
  }
}
