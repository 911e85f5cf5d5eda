import { sleep } from "./abortable.ts";
import { buildQuery, type Exact, toExact } from "./lists.ts";
import type { components } from "./openapi.ts";
import type { Address, RegistryVersion } from "./questions.ts";
import { notAnAnswer, RegistryError } from "./registry-error.ts";
import { describeFailure, findDelay, readResponse, type TransportOptions } from "./transport.ts";

export type Change = Exact<components["schemas"]["Change"]>;

/** The block up to which a reader has everything. */
export type WatchedBlock = { number: number; timestamp: number; final: boolean; finalized: number };

export type FinalEvent = (
  | { type: "change"; change: Change }
  /** Every change up to these blocks has been read, by chain id. */
  | { type: "progress"; blocks: Record<string, WatchedBlock> }
) & {
  /** Where to go on after this event. */
  cursor: string;
};

/** With `finality: "latest"`: a reorg makes every change of a network after a block void. */
export type LatestEvent = FinalEvent | { type: "undo"; chainId: number; afterBlock: number; cursor: string };

export type WatchOptions = {
  /** The networks; all by default. */
  chainId?: number | readonly number[];
  registry?: RegistryVersion | "both";
  /** A wallet on either side. */
  wallet?: Address;
  vault?: Address;
  delegate?: Address;
  contract?: Address;
  type?: "ALL" | "CONTRACT" | "TOKEN";
  /** The `cursor` of an event, or "start" for the whole log. By default from now on. */
  cursor?: string;
  signal?: AbortSignal;
};

type Service = Pick<TransportOptions, "url" | "apiKey" | "fetch" | "onWait">;

/** The service sends something about every 10 s. */
const MAX_SILENCE_MS = 45_000;
/** The delay stops doubling at 32 s. */
const MAX_DOUBLINGS = 7;
/** A timer ends at once if its time is above 2^31 ms. */
const MAX_RETRY_AFTER_MS = 3_600_000;

/**
 * Reads the changes of delegations as they happen. Connects again and goes on where it was, until the loop over it ends
 * or the signal is aborted. Throws if the service refuses the question.
 */
export function watchChanges(
  service: Service,
  options: WatchOptions & { finality: "latest" },
): AsyncGenerator<LatestEvent, never>;
export function watchChanges(
  service: Service,
  options?: WatchOptions & { finality?: "final" },
): AsyncGenerator<FinalEvent, never>;
export async function* watchChanges(
  service: Service,
  { signal, cursor: start, ...query }: WatchOptions & { finality?: string } = {},
): AsyncGenerator<LatestEvent, never> {
  let cursor = start;
  for (let failures = 0; ; failures++) {
    try {
      for await (const event of readStream(service, buildQuery({ ...query, cursor }), signal)) {
        failures = 0;
        cursor = event.cursor;
        yield event;
      }
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      const failure =
        error instanceof RegistryError
          ? error
          : new RegistryError(`The stream is broken: ${describeFailure(error)}`, { cause: error });
      if (!failure.isRetryable) throw failure;
      const retryAfterMs = Math.min(failure.retryAfterMs, MAX_RETRY_AFTER_MS);
      const ms = findDelay(Math.min(failures, MAX_DOUBLINGS), retryAfterMs);
      service.onWait?.({ ms, error: failure, limit: null });
      await sleep(ms, signal);
    }
  }
}

/** Reads one connection. Throws when it ends. */
async function* readStream(
  { url, apiKey, fetch = globalThis.fetch }: Service,
  query: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<LatestEvent, never> {
  const connection = new AbortController();
  const abort = () => connection.abort(signal?.reason);
  if (signal?.aborted) abort();
  signal?.addEventListener("abort", abort);
  const silence = createTimer(MAX_SILENCE_MS, () => connection.abort(new Error("The service is silent.")));
  try {
    const response = await fetch(`${url.replace(/\/$/, "")}/changes?${query}`, {
      headers: { Accept: "text/event-stream", ...(apiKey !== undefined && { "X-API-KEY": apiKey }) },
      // A redirect would take the key along.
      redirect: "error",
      signal: connection.signal,
    });
    if (!response.headers.get("Content-Type")?.startsWith("text/event-stream") || !response.body) {
      throw notAnAnswer((await readResponse(response)).json);
    }
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let rest = "";
    let retryAfterMs = 0;
    for (;;) {
      silence.restart();
      const read = await reader.read();
      // The caller may take its time for the events.
      silence.stop();
      if (read.done) throw new RegistryError("The service has ended the stream.", { retryAfterMs });
      const parts = (rest + decoder.decode(read.value, { stream: true })).split("\n\n");
      rest = parts.pop() ?? "";
      for (const part of parts) {
        const fields = parseFields(part);
        // A service that stops spreads its readers over a few seconds.
        retryAfterMs = Number(fields.get("retry") ?? retryAfterMs);
        const event = readEvent(fields);
        if (event) yield event;
      }
    }
  } finally {
    silence.stop();
    signal?.removeEventListener("abort", abort);
    connection.abort();
  }
}

const createTimer = (ms: number, onTimeout: () => void) => {
  let timer = setTimeout(onTimeout, ms);
  const stop = () => clearTimeout(timer);
  const restart = () => {
    stop();
    timer = setTimeout(onTimeout, ms);
  };
  return { restart, stop };
};

type Fields = ReadonlyMap<string, string>;

const parseFields = (text: string): Fields =>
  new Map(text.split("\n").map((line) => [line.split(":", 1)[0] ?? "", line.replace(/^\w*: ?/, "")]));

/** @returns undefined for a comment, or a hint when to connect again */
const readEvent = (fields: Fields): LatestEvent | undefined => {
  const [type, cursor, data] = ["event", "id", "data"].map((name) => fields.get(name));
  if (type === undefined) return undefined;
  if (!cursor || !data) throw notAnAnswer(Object.fromEntries(fields));
  const json = JSON.parse(data);
  switch (type) {
    case "change":
      return { type, change: toExact(json) as Change, cursor };
    case "undo":
      return { type, chainId: json.chainId, afterBlock: json.afterBlock, cursor };
    case "progress":
      return { type, blocks: json.blocks, cursor };
    default:
      // Of a later version: a reader that does not know it may miss something.
      throw notAnAnswer(Object.fromEntries(fields));
  }
};
