import { createInterface } from "node:readline";
import { PassThrough, type Writable } from "node:stream";
import { createLogUpdate } from "log-update";
import { isColorSupported, prettyFactory } from "pino-pretty";
import type { IndexProgress } from "../indexer/shards/progress.ts";
import { LOG_LEVELS, type Log } from "../process/program.ts";
import { BackfillProgress } from "./backfill-progress.ts";
import type { FetchedHistory } from "./fetched-history.ts";

const REDRAW_MS = 500;
const WARN = 40;

const formatLine = prettyFactory({
  colorize: isColorSupported,
  translateTime: "SYS:HH:MM:ss",
  singleLine: true,
});

/** Writes everything that `npm start` shows on a terminal: log lines, with the progress of a backfill below them. */
export class Terminal {
  readonly #stream: Writable;
  readonly #draw: ReturnType<typeof createLogUpdate>;
  /** Present during a backfill. */
  #progress: BackfillProgress | undefined;
  #drawnAt = Number.NEGATIVE_INFINITY;

  constructor(stream: Writable) {
    this.#stream = stream;
    // A hidden cursor would stay hidden if this process is killed.
    this.#draw = createLogUpdate(stream, { showCursor: true });
  }

  log: Log = (message, level = "info") =>
    this.#print(formatLine({ level: LOG_LEVELS[level], time: Date.now(), msg: message }));

  /** Creates a stream for a child's JSON lines. Those below level "warn" are not shown during a backfill. */
  createOutput(): Writable {
    const input = new PassThrough();
    createInterface({ input }).on("line", (line) => {
      if (this.#progress && readLevel(line) < WARN) return;
      this.#print(formatLine(line));
    });
    return input;
  }

  /** Shows the progress of a backfill, at most twice a second. */
  showProgress(chains: readonly IndexProgress[], history: ReadonlyMap<string, FetchedHistory>): void {
    const now = performance.now();
    this.#progress ??= new BackfillProgress();
    this.#progress.add(chains, history, now);
    if (now - this.#drawnAt < REDRAW_MS) return;
    this.#drawnAt = now;
    this.#draw(this.#progress.describe());
  }

  /** Replaces the progress with a last line per chain. */
  showLive(): void {
    const lines = this.#progress?.describeLive() ?? "";
    this.#progress = undefined;
    this.#print(lines);
  }

  #print(text: string): void {
    this.#draw.clear();
    this.#stream.write(text);
    if (this.#progress) this.#draw(this.#progress.describe());
  }
}

/** Reads the level of a pino line, which comes first in it. Any other line is always shown. */
const readLevel = (line: string): number => Number(/^\{"level":(\d+)/.exec(line)?.[1] ?? Number.POSITIVE_INFINITY);
