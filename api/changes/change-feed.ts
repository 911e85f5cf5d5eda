import { setImmediate as nextTurn } from "node:timers/promises";
import type { Database } from "../database/database.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { Problem } from "../problem.ts";
import type { Shards } from "../shards/shards.ts";
import type { Position } from "./change-cursor.ts";
import type { Filters, Finality } from "./filters.ts";
import { type Asked, type NetworkChanges, type Question, type ReachedBlock, readChanges } from "./read-changes.ts";

/** How often the log is read: changes come within two seconds of their block. */
const TICK_MS = 500;
const ROWS = 1_000;
const EVERYTHING: Filters = { registry: "both" };
/** Streams that are served in one turn of the event loop. */
const SLICE = 10;

/** A stream, or who else wants to know of changes: what the feed tells it. */
export type Follower = {
  readonly finality: Finality;
  /** For metrics. */
  readonly isBehind?: boolean;
  addChains: (chains: Set<number>) => void;
  receive: (before: Position, changes: NetworkChanges) => Position | null;
  fallBehind: (head: Head, position: Position) => void;
  tellProgress: () => void;
  end: () => void;
};

/** The newest state of a network that streams have been told of. */
export class Head {
  readonly chainId: number;
  position: Position;
  /** Null while the network cannot be answered for, or has more changes to read. */
  reached: ReachedBlock | null;
  readonly #members = new Set<Follower>();
  /** Streams that have not got the latest changes yet, and where they are. */
  #waiting = new Set<Follower>();
  #before: Position;

  constructor(chainId: number, position: Position, reached: ReachedBlock | null) {
    this.chainId = chainId;
    this.position = position;
    this.#before = position;
    this.reached = reached;
  }

  join(stream: Follower): void {
    this.#members.add(stream);
  }

  leave(stream: Follower): void {
    this.#members.delete(stream);
    this.#waiting.delete(stream);
  }

  /** True if the stream has got everything up to the position. */
  isServed(stream: Follower): boolean {
    return !this.#waiting.has(stream);
  }

  positionOf(stream: Follower): Position {
    return this.isServed(stream) ? this.position : this.#before;
  }

  /** Moves on, and serves the streams that are here, a few at a time. */
  async advance(changes: NetworkChanges & { position: Position }): Promise<void> {
    this.#before = this.position;
    this.position = changes.position;
    this.reached = changes.reached;
    if (changes.undoTo === null && changes.changes.length === 0) return;
    this.#waiting = new Set(this.#members);
    let served = 0;
    for (const stream of this.#waiting) {
      if (++served % SLICE === 0) await nextTurn();
      if (!this.#waiting.has(stream)) continue;
      const last = stream.receive(this.#before, changes);
      this.#waiting.delete(stream);
      // It has no room for all of them, and reads the rest itself.
      if (last) stream.fallBehind(this, last);
    }
  }
}

type FeedOptions = {
  database: Pick<Database, "read">;
  shards: Shards;
  load: Metrics["changes"];
  /** Called for unexpected errors, not for problems. */
  onError: (error: unknown) => void;
};

/**
 * Reads new changes of all networks once for all streams, while there are any. A stream that is not up to date, or is
 * slow, reads by itself until it is, and a webhook when it has news: at any time at most one stream and one webhook.
 */
export class ChangeFeed {
  readonly #options: FeedOptions;
  /** For metrics. */
  readonly load: FeedOptions["load"];
  readonly #streams = new Set<Follower>();
  readonly #heads: Record<Finality, Map<number, Head>> = { final: new Map(), latest: new Map() };
  #timer: NodeJS.Timeout | undefined;
  #isTicking = false;
  #isStopped = false;
  #waiting: (() => void)[] = [];
  readonly #lastReads = { streams: Promise.resolve(), webhooks: Promise.resolve() };

  constructor(options: FeedOptions) {
    this.#options = options;
    this.load = options.load;
    this.load.countBehind = () => [...this.#streams].filter(({ isBehind }) => isBehind).length;
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  add(stream: Follower): void {
    this.#streams.add(stream);
    this.load.readAt ??= performance.now();
    if (!this.#isTicking && this.#timer === undefined) this.#tick();
  }

  remove(stream: Follower): void {
    this.#streams.delete(stream);
  }

  findHead(finality: Finality, chainId: number): Head | undefined {
    return this.#heads[finality].get(chainId);
  }

  /** Waits until changes that are new from now on have been read, or have failed to be. */
  waitForTick(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  /**
   * Reads for one stream or webhook, when those of its kind that have asked before have been served.
   *
   * @param findAsked - called then: heads move on while others are served
   */
  readAlone(
    kind: "streams" | "webhooks",
    question: Omit<Question, "pool">,
    findAsked: () => readonly Asked[],
  ): ReturnType<typeof readChanges> {
    const { database, shards } = this.#options;
    const reading = this.#lastReads[kind].then(() =>
      readChanges(database, shards, { ...question, pool: "changes" }, findAsked()),
    );
    this.#lastReads[kind] = reading.then(
      () => {},
      () => {},
    );
    return reading;
  }

  /** Ends all streams, with a hint to connect again. */
  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    for (const stream of this.#streams) stream.end();
    for (const resolve of this.#waiting) resolve();
  }

  async #tick(): Promise<void> {
    const { load } = this;
    this.#timer = undefined;
    this.#isTicking = true;
    const startedAt = performance.now();
    const waiting = this.#waiting;
    this.#waiting = [];
    try {
      await this.#read("final");
      await this.#read("latest");
      load.readAt = startedAt;
    } catch (error) {
      for (const heads of Object.values(this.#heads)) for (const head of heads.values()) head.reached = null;
      if (!(error instanceof Problem)) this.#options.onError(error);
    }
    for (const resolve of waiting) resolve();
    let told = 0;
    for (const stream of this.#streams) {
      if (++told % SLICE === 0) await nextTurn();
      stream.tellProgress();
    }
    this.#isTicking = false;
    if (this.#isStopped) return;
    if (this.#streams.size > 0) {
      this.#timer = setTimeout(() => this.#tick(), Math.max(0, startedAt + TICK_MS - performance.now()));
    } else {
      load.readAt = null;
      for (const heads of Object.values(this.#heads)) heads.clear();
    }
  }

  /** Reads what is new on all networks that streams follow. */
  async #read(finality: Finality): Promise<void> {
    const { database, shards } = this.#options;
    const heads = this.#heads[finality];
    const followed = new Set<number>();
    for (const stream of this.#streams) if (stream.finality === finality) stream.addChains(followed);
    for (const chainId of heads.keys()) if (!followed.has(chainId)) heads.delete(chainId);
    let asked: Asked[] = [...followed].map((chainId) => ({ chainId, position: heads.get(chainId)?.position ?? "now" }));
    while (asked.length > 0) {
      const question = { filters: EVERYTHING, finality, since: 0, rows: ROWS, pool: "changes" as const };
      const found = await readChanges(database, shards, question, asked);
      asked = [];
      for (const [{ chainId }, changes] of found) {
        const head = heads.get(chainId);
        if (changes instanceof Problem) {
          if (head) head.reached = null;
          continue;
        }
        const { position, reached, hasMore } = changes;
        if (hasMore) asked.push({ chainId, position: position ?? "now" });
        if (position === null) continue;
        if (head) await head.advance({ ...changes, position });
        else heads.set(chainId, new Head(chainId, position, reached));
      }
    }
  }
}
