import type { Address, Hash } from "viem";

/** What eth_getLogs is asked for: the logs of one block, or of a range. */
export type LogFilter = {
  blockHash?: Hash;
  address?: Address | Address[];
  topics?: (string | string[] | null)[];
  fromBlock?: string;
  toBlock?: string;
};

type Log = { address: string; topics: string[]; blockHash: string; logIndex: string };

type AskLogs = (filter: LogFilter) => Promise<unknown>;

/** Enough for the requests that Ponder makes of one range, one for each kind of event. */
const KEPT = 8;

/**
 * A node that is behind, or has not stored all of a block, answers a request for logs with some of them, or none,
 * and no error. So what Ponder asks of the registries is asked a second time in other words: where both answers
 * say the same, they are taken.
 */
export class LogConfirmation {
  readonly #ask: AskLogs;
  readonly #registries: Address[];
  readonly #asked = new Map<string, Promise<unknown>>();

  constructor(ask: AskLogs, registries: readonly Address[]) {
    this.#ask = ask;
    this.#registries = [...registries];
  }

  /** Whether another request bears out the logs of a range. All kinds of events of a registry share that request. */
  async bearsOutRange(filter: LogFilter, logs: Promise<unknown>): Promise<boolean> {
    const { topics, ...all } = filter;
    const key = JSON.stringify(all);
    const others = this.#asked.get(key) ?? this.#ask(all);
    this.#keep(key, others);
    // Neither is to fail unheard while the other is waited for.
    const [told, known] = await Promise.all([logs, others]).catch((error) => {
      this.#asked.delete(key);
      throw error;
    });
    const isBorneOut = isSame(
      readLogs(told).filter((log) => matches(log, topics)),
      readLogs(known).filter((log) => matches(log, topics)),
    );
    if (!isBorneOut) this.#asked.delete(key);
    return isBorneOut;
  }

  /** The same of the registries' logs among all those of one block. */
  async bearsOutBlock(number: string, logs: unknown): Promise<boolean> {
    const others = await this.#ask({ address: this.#registries, fromBlock: number, toBlock: number });
    const registries = new Set(this.#registries.map((address) => address.toLowerCase()));
    return isSame(
      readLogs(logs).filter(({ address }) => registries.has(address.toLowerCase())),
      readLogs(others),
    );
  }

  #keep(key: string, others: Promise<unknown>) {
    this.#asked.set(key, others);
    const [oldest] = this.#asked.keys();
    if (this.#asked.size > KEPT && oldest !== undefined) this.#asked.delete(oldest);
  }
}

const readLogs = (answer: unknown): Log[] => {
  if (!Array.isArray(answer)) throw new Error("A node answered a request for logs with something else.");
  return answer;
};

const matches = ({ topics }: Log, wanted: LogFilter["topics"] = []): boolean =>
  wanted.every((topic, index) => {
    const allowed = [topic ?? []].flat();
    return allowed.length === 0 || allowed.includes(topics[index] ?? "");
  });

const isSame = (logs: readonly Log[], others: readonly Log[]): boolean => {
  const known = new Set(others.map(keyOf));
  return logs.length === others.length && logs.every((log) => known.has(keyOf(log)));
};

const keyOf = ({ blockHash, logIndex }: Log) => `${blockHash} ${logIndex}`;
