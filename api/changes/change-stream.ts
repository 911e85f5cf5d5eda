import { isToken } from "../../registry/delegation.ts";
import { Problem } from "../problem.ts";
import { inSlices } from "../slices.ts";
import { showChange } from "../wallets/wallet-json.ts";
import { encodeChangeCursor, type Position } from "./change-cursor.ts";
import type { ChangeFeed, Follower, Head } from "./change-feed.ts";
import { type Filters, type Finality, ROWS_ALONE, rowsToRead } from "./filters.ts";
import type { Asked, NetworkChanges, Question, ReadChange } from "./read-changes.ts";

/** Text that waits for a reader. */
const ROOM_BYTES = 64 * 1024;
/** Time between progress without a change: what lies between a reader and the service closes silent connections. */
const PROGRESS_MS = 10_000;
/** Time in which a reader has to read something. */
const STALL_MS = 30_000;
/** A key may have been revoked in between. */
const MAX_DURATION_MS = 3_600_000;
/** Time after which a reader connects again. Not all at the same moment when a process stops. */
const RETRY_MS = 1_000;
const RETRY_SPREAD_MS = 4_000;

type StreamQuestion = {
  filters: Filters;
  finality: Finality;
  /** Names the question in cursors. */
  name: string;
  since: number;
  /** Finds the networks that are asked for: of all of them, new ones may be added. */
  findChains: () => readonly number[];
  /** Where to start on each network; on others at `since`. */
  positions: ReadonlyMap<number, Position | "now">;
  /** Parts of its cursors that this version of the service does not know. */
  unknown: readonly string[];
};

type StreamOptions = {
  feed: ChangeFeed;
  question: StreamQuestion;
  /** Called once, when the stream is over. */
  onEnd: () => void;
  /** Closes the connection. */
  abort: () => void;
  onError: (error: unknown) => void;
};

const encoder = new TextEncoder();

/** Changes for one reader, at its own pace, in bounded memory. */
export class ChangeStream implements Follower {
  readonly body: ReadableStream<Uint8Array>;
  readonly #options: StreamOptions;
  /** Networks on which it is up to date. */
  readonly #joined = new Map<number, Head>();
  /** Other networks, and how far it is; null for none of its changes after `since`. */
  readonly #behind = new Map<number, Position | "now" | null>();
  readonly #startedAt = performance.now();
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #isOver = false;
  /** When it ran out of room; null while it has some. */
  #fullSince: number | null = null;
  #toldAt = this.#startedAt;
  /** Rows to read next: fewer after a read with more changes than there was room for, as the rest is read again. */
  #rows: number;
  /** The networks that it has heard of. `findChains()` returns the same array while nothing has changed. */
  #found: readonly number[] = [];
  /** True if it has sent something since it last told how far it is. */
  #hasNews = true;
  #wake = () => {};

  constructor(options: StreamOptions) {
    this.#options = options;
    const { filters, positions } = options.question;
    this.#rows = rowsToRead(filters);
    for (const [chainId, position] of positions) this.#behind.set(chainId, position);
    this.body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        pull: () => {
          this.#fullSince = null;
          this.#wake();
        },
        cancel: () => this.close(),
      },
      { highWaterMark: ROOM_BYTES, size: ({ byteLength }) => byteLength },
    );
  }

  get finality(): Finality {
    return this.#options.question.finality;
  }

  /** True while a network that can be answered for has something that it has not read. */
  get isBehind(): boolean {
    const { feed } = this.#options;
    return [...this.#behind.keys()].some((chainId) => feed.findHead(this.finality, chainId)?.reached);
  }

  start(): void {
    this.#write(`retry: ${RETRY_MS}\n\n`);
    this.#options.feed.add(this);
    this.#catchUp().catch((error) => {
      if (!(error instanceof Problem)) this.#options.onError(error);
      this.#abort();
    });
  }

  /** Ends it with a hint to connect again. */
  end(): void {
    if (this.#isOver) return;
    this.#write(`retry: ${RETRY_MS + Math.floor(Math.random() * RETRY_SPREAD_MS)}\n\n`);
    this.close();
    this.#controller?.close();
  }

  /** Adds its networks to those that are read. */
  addChains(chains: Set<number>): void {
    const found = this.#options.question.findChains();
    if (found !== this.#found) {
      this.#found = found;
      for (const chainId of found) {
        if (this.#joined.has(chainId) || this.#behind.has(chainId)) continue;
        this.#behind.set(chainId, null);
        this.#wake();
      }
    }
    // Also those that the service does not know at the moment.
    for (const chainId of this.#joined.keys()) chains.add(chainId);
    for (const chainId of this.#behind.keys()) chains.add(chainId);
  }

  /**
   * Sends what is new on a network on which it is up to date.
   * @returns null, or if it has no room for all of it, how far it has got
   */
  receive(before: Position, { chainId, undoTo, changes }: NetworkChanges): Position | null {
    const asked = changes.filter((change) => isAsked(this.#options.question.filters, change));
    if (!undoTo && asked.length === 0) return null;
    if (this.#isFull()) return before;
    let events = undoTo ? this.#showUndo(chainId, undoTo) : "";
    for (const [index, change] of asked.entries()) {
      events += this.#showChange(change);
      if (events.length < ROOM_BYTES || index === asked.length - 1) continue;
      this.#write(events);
      return change.position;
    }
    this.#write(events);
    return null;
  }

  /** Reads a network by itself from now on. */
  fallBehind(head: Head, position: Position): void {
    head.leave(this);
    this.#joined.delete(head.chainId);
    this.#behind.set(head.chainId, position);
    this.#wake();
  }

  /** Sends progress after changes and every 10 s. Ends a stream that nobody reads, or that is an hour old. */
  tellProgress(): void {
    if (this.#isOver) return;
    const now = performance.now();
    if (this.#fullSince !== null && now - this.#fullSince > STALL_MS) {
      this.#options.feed.load.drops++;
      this.#abort();
      return;
    }
    if (now - this.#startedAt > MAX_DURATION_MS) {
      this.end();
      return;
    }
    const isDue = now - this.#toldAt > PROGRESS_MS;
    if (this.#isFull() || !(this.#hasNews || isDue)) return;
    const reached = [...this.#joined].flatMap(([chainId, head]) =>
      head.reached && head.isServed(this) ? [`"${chainId}":${JSON.stringify(head.reached)}`] : [],
    );
    if (reached.length > 0) this.#write(this.#show("progress", null, `{"blocks":{${reached.join()}}}`));
    // A comment, which readers ignore.
    else if (isDue) this.#write(":\n\n");
    else return;
    this.#hasNews = reached.length === 0;
    this.#toldAt = now;
  }

  /** Reads what it lacks until it is up to date, again and again. */
  async #catchUp(): Promise<void> {
    const { feed, question } = this.#options;
    const { filters, finality, since } = question;
    while (!this.#isOver) {
      if (this.#join()) this.tellProgress();
      if (this.#behind.size === 0 || this.#isFull()) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        continue;
      }
      if (this.#findAsked().length > 0 && (await this.#readNext({ filters, finality, since, rows: this.#rows })))
        continue;
      await feed.waitForTick();
      if (this.#join()) this.tellProgress();
      // A network that cannot be answered for now starts at the time, once it can be.
      for (const [chainId, position] of this.#behind) if (position === "now") this.#behind.set(chainId, null);
    }
  }

  /** Finds what to read: up to the blocks of the heads at this moment, where it can join them. */
  #findAsked(): Asked[] {
    const { feed, question } = this.#options;
    if (this.#isOver) return [];
    return [...this.#behind].flatMap(([chainId, position]): Asked[] => {
      const head = feed.findHead(question.finality, chainId);
      if (!head?.reached || position === "now") return [];
      const toBlock = head.position.block;
      // An index that is behind the reader's final block has no answer.
      return position && position.final > toBlock ? [] : [{ chainId, position, toBlock }];
    });
  }

  /** @returns false if nothing was new */
  async #readNext(question: Omit<Question, "pool">): Promise<boolean> {
    const reading = this.#options.feed.readAlone("streams", question, () => this.#findAsked());
    const found = await reading.catch((error) => {
      if (error instanceof Problem) return null;
      throw error;
    });
    let isNew = false;
    for (const [{ chainId, position: before }, read] of found ?? []) {
      if (read instanceof Problem) continue;
      if (this.#isFull()) return true;
      const { undoTo, changes, position } = read;
      if (undoTo) {
        this.#write(this.#showUndo(chainId, undoTo));
        this.#behind.set(chainId, undoTo);
      }
      let hasRoom = true;
      await inSlices(changes, (change) => {
        hasRoom &&= !this.#isFull();
        if (!hasRoom) return;
        this.#write(this.#showChange(change));
        this.#behind.set(chainId, change.position);
      });
      if (!hasRoom) {
        this.#rows = ROWS_ALONE;
        return true;
      }
      this.#rows = rowsToRead(question.filters);
      this.#behind.set(chainId, position);
      // A reorg that the head does not know yet: there is nothing more to read until it does.
      isNew ||= undoTo !== null || textOf(position) !== textOf(before);
    }
    return isNew;
  }

  /**
   * Joins the others on networks on which it is as far as they are.
   * @returns true if there are any
   */
  #join(): boolean {
    // A head would keep it.
    if (this.#isOver) return false;
    const { feed, question } = this.#options;
    let hasJoined = false;
    for (const [chainId, position] of this.#behind) {
      const head = feed.findHead(question.finality, chainId);
      if (!head?.reached || !position) continue;
      if (position !== "now" && !isSame(position, head.position)) continue;
      this.#behind.delete(chainId);
      this.#joined.set(chainId, head);
      head.join(this);
      hasJoined = true;
    }
    this.#hasNews ||= hasJoined;
    return hasJoined;
  }

  #showUndo(chainId: number, undoTo: Position): string {
    const data = JSON.stringify({ chainId, afterBlock: undoTo.block });
    return this.#show("undo", { chainId, position: undoTo }, data);
  }

  #showChange(change: ReadChange): string {
    return this.#show("change", { chainId: change.row.chainId, position: change.position }, showJson(change));
  }

  /** @param at - where the event is */
  #show(event: string, at: { chainId: number; position: Position } | null, data: string): string {
    const { name, since, unknown } = this.#options.question;
    const texts = at ? [at.position.text, ...unknown] : [...unknown];
    for (const [chainId, head] of this.#joined) if (chainId !== at?.chainId) texts.push(head.positionOf(this).text);
    for (const [chainId, position] of this.#behind) {
      if (chainId !== at?.chainId && position && position !== "now") texts.push(position.text);
    }
    this.#hasNews = true;
    return `event: ${event}\nid: ${encodeChangeCursor(name, since, texts)}\ndata: ${data}\n\n`;
  }

  #isFull(): boolean {
    return (this.#controller?.desiredSize ?? 0) <= 0;
  }

  #write(text: string): void {
    if (this.#isOver) return;
    this.#controller?.enqueue(encoder.encode(text));
    if (this.#isFull()) this.#fullSince ??= performance.now();
  }

  #abort(): void {
    if (this.#isOver) return;
    this.close();
    this.#options.abort();
  }

  close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const head of this.#joined.values()) head.leave(this);
    this.#options.feed.remove(this);
    this.#options.onEnd();
    this.#wake();
  }
}

/** The JSON of each change: made once for all streams. */
const shown = new WeakMap<ReadChange, string>();

const showJson = (change: ReadChange): string => {
  let json = shown.get(change);
  if (json === undefined) {
    json = JSON.stringify(showLiveChange(change));
    shown.set(change, json);
  }
  return json;
};

export const showLiveChange = ({ row, isFinal }: ReadChange) => ({ ...showChange(row), final: isFinal });

/** The same as the condition in SQL. */
export const isAsked = (filters: Filters, { row }: ReadChange): boolean => {
  const { registry, wallet, vault, delegate, contract, type } = filters;
  return (
    (registry === "both" || registry === row.registry) &&
    (!wallet || wallet === row.vault || wallet === row.delegate) &&
    (!vault || vault === row.vault) &&
    (!delegate || delegate === row.delegate) &&
    (!contract || (contract === row.contract && row.type !== "ALL")) &&
    (!type || type === (isToken(row.type) ? "TOKEN" : row.type))
  );
};

const textOf = (position: Position | "now" | null) => (typeof position === "string" ? position : position?.text);

/** True if a position has the same changes as the newest one, which may know later final blocks. */
const isSame = (position: Position, newest: Position): boolean => {
  if (position.block !== newest.block || position.change) return false;
  if (position.text === newest.text) return true;
  if (!position.blocks || !newest.blocks) return false;
  const final = Math.max(position.final, newest.final);
  const digests = ({ blocks }: Position) =>
    blocks?.flatMap(({ number, digest }) => (number > final ? [number, digest] : [])).join();
  return digests(position) === digests(newest);
};
