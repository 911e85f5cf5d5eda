import type { Address, Hash, Hex } from "viem";

/** What eth_getLogs is asked for of a range of blocks. */
export type LogFilter = {
  address?: Address | Address[];
  topics?: (string | string[] | null)[];
  fromBlock?: string;
  toBlock?: string;
};

export type Log = { address: Hex; topics: Hex[]; blockNumber: Hex; blockHash: Hash; logIndex: Hex };

/** Enough for the requests that Ponder makes of one range, one for each kind of event. */
const KEPT = 8;

/** The logs in an answer. */
export const logsIn = (answer: unknown): Log[] => {
  if (!Array.isArray(answer)) throw new Error("A node answered a request for logs with something else.");
  return answer;
};

export const idOf = ({ blockHash, logIndex }: Log): string => `${blockHash} ${Number(logIndex)}`;

export const inOrder = (a: Log, b: Log) =>
  Number(a.blockNumber) - Number(b.blockNumber) || Number(a.logIndex) - Number(b.logIndex);

const matches = ({ topics }: Log, wanted: LogFilter["topics"] = []): boolean =>
  wanted.every((topic, index) => {
    const allowed = [topic ?? []].flat();
    return allowed.length === 0 || allowed.some((one) => one === topics[index]);
  });

/** Asks for logs in other words than Ponder does: those of all kinds of events, once for all of Ponder's requests. */
export class WholeRanges {
  readonly #ask: (filter: LogFilter) => Promise<unknown>;
  readonly #asked = new Map<string, Promise<unknown>>();

  constructor(ask: (filter: LogFilter) => Promise<unknown>) {
    this.#ask = ask;
  }

  async ask({ topics, ...whole }: LogFilter): Promise<Log[]> {
    const key = JSON.stringify(whole);
    const answer = this.#asked.get(key) ?? this.#ask(whole);
    this.#asked.set(key, answer);
    const [oldest] = this.#asked.keys();
    if (this.#asked.size > KEPT && oldest !== undefined) this.#asked.delete(oldest);
    try {
      return logsIn(await answer).filter((log) => matches(log, topics));
    } catch (error) {
      this.#asked.delete(key);
      throw error;
    }
  }
}
