import { setTimeout as sleep } from "node:timers/promises";
import type { Address } from "viem";
import { describeError } from "../../process/program.ts";
import type { ChainPlan } from "../plan.ts";
import type { Queryable } from "../shards/queryable.ts";
import { saveDifference, saveVerified, type VerificationState } from "../shards/verification-state.ts";
import { drawWallets, readChangedWallets, WalletRound } from "./draw-wallets.ts";
import { type IndexedLists, readIndexedLists, readPastLists } from "./read-lists.ts";
import type { RegistryState } from "./registry-state.ts";

/** Wallets to compare at a block. Some 15 of them, without long lists, take one request. */
const BATCH = 96;
const PROGRESS_MS = 5_000;
const CHANGED_INTERVAL_MS = 10_000;
/** Wallets that contradict proofs, of as many at a time: nobody can make the indexer ask for more. */
const CONTRADICTED = 8;
/** The pause doubles while the index is right about them: a node of the API that is wrong stays so. */
const CONTRADICTED_INTERVAL_MS = 10_000;
const MAX_CONTRADICTED_INTERVAL_MS = 600_000;
/** Attempts to compare wallets: a reorg may replace their block in the meantime. */
const ATTEMPTS = 4;
const RETRY_MS = 1_000;
/** Wallets that differ, after which no more are compared: the repair comes first. */
const MAX_DIFFERING = 50;
const DAY_MS = 86_400_000;

export type VerifiedChain = {
  schema: string;
  chain: ChainPlan;
  state: RegistryState;
  connection: Queryable;
  log: (message: string) => void;
};

type Options = VerifiedChain & { requestsPerDay: number };

/** Wallets of which all endpoints say that the index is wrong. */
export type Difference = {
  wallets: readonly Address[];
  block: number;
  text: string;
  /** True if only the log is wrong, at a past block: the comparison before an index is served does not find that. */
  isOfLog: boolean;
};

/** Compares the index of a chain with the registries: before it is served, each changed wallet, and the others in turn. */
export class ChainVerification {
  readonly #options: Options;
  readonly #round: WalletRound;
  #isRunning = false;
  #lastFailure: string | undefined;
  #nextChangedAt = 0;
  #nextContradictedAt = 0;
  #contradictedIntervalMs = CONTRADICTED_INTERVAL_MS;
  #nextBatchAt = 0;
  /** Wallets about which a proof said something else than the index, and the block of the proof. */
  readonly contradicted = new Map<Address, number>();
  /** Set until the index of the chain is repaired. */
  difference: Difference | undefined;

  constructor(options: Options) {
    this.#options = options;
    this.#round = new WalletRound(options.connection, options.schema, options.chain.chainId);
  }

  /** Starts the comparison that is due, unless one is running. It ends with the signal. */
  async update(state: VerificationState, now: number, signal: AbortSignal): Promise<void> {
    if (this.#isRunning || this.difference) return;
    this.#isRunning = true;
    try {
      if (state.verified === null) await this.#prove(state, signal);
      else if (state.final > state.verified && now >= this.#nextChangedAt)
        await this.#verifyChanged(state.verified, state.final, now, signal);
      else if (this.contradicted.size > 0 && now >= this.#nextContradictedAt)
        await this.#verifyContradicted(state, now, signal);
      else if (now >= this.#nextBatchAt) await this.#verifyNext(state.verified, now, signal);
      this.#lastFailure = undefined;
    } catch (error) {
      this.#reportFailure(error, signal);
    } finally {
      this.#isRunning = false;
    }
  }

  /** Compares all wallets, or a sample of them, before the index is served. */
  async #prove({ chainId, indexed }: VerificationState, signal: AbortSignal): Promise<void> {
    const { connection, schema, chain, log } = this.#options;
    const { wallets, isComplete } = await drawWallets(connection, schema, chainId);
    let reportAt = performance.now() + PROGRESS_MS;
    const isRight = await this.#compareAll(wallets, signal, (done) => {
      if (performance.now() < reportAt) return;
      reportAt = performance.now() + PROGRESS_MS;
      log(`${chain.name}: ${done} of ${wallets.length} wallets are compared with the registries.`);
    });
    if (!isRight) return;
    await this.#save(indexed, wallets.length, signal);
    const compared = isComplete ? `all ${wallets.length}` : `a sample of ${wallets.length}`;
    log(`${chain.name}: the index agrees with the registries for ${compared} wallets.`);
  }

  async #verifyChanged(after: number, last: number, now: number, signal: AbortSignal): Promise<void> {
    this.#nextChangedAt = now + CHANGED_INTERVAL_MS;
    const { connection, schema, chain } = this.#options;
    const wallets = await readChangedWallets(connection, schema, { chainId: chain.chainId, after, last });
    if (await this.#compareAll(wallets, signal)) await this.#save(last, wallets.length, signal);
  }

  /** Compares wallets as they are now, and their log, which answers at past blocks come from, as far as it is final. */
  async #verifyContradicted({ verified, final }: VerificationState, now: number, signal: AbortSignal): Promise<void> {
    const hasRested = now > this.#nextContradictedAt + MAX_CONTRADICTED_INTERVAL_MS;
    const interval = hasRested ? CONTRADICTED_INTERVAL_MS : this.#contradictedIntervalMs;
    this.#nextContradictedAt = now + interval;
    this.#contradictedIntervalMs = Math.min(interval * 2, MAX_CONTRADICTED_INTERVAL_MS);
    const due = [...this.contradicted].slice(0, CONTRADICTED);
    // Whoever asks again reports it again.
    for (const [wallet] of due) this.contradicted.delete(wallet);
    const wallets = due.map(([wallet]) => wallet);
    if (!(await this.#compareAll(wallets, signal))) return;
    for (const [wallet, block] of due) {
      const differing = await this.#confirm(wallet, Math.min(block, final));
      if (signal.aborted) return;
      if (differing) return this.#differ({ wallets: [wallet], ...differing, isOfLog: true });
    }
    if (verified !== null) await this.#save(verified, wallets.length, signal);
  }

  async #verifyNext(verified: number, now: number, signal: AbortSignal): Promise<void> {
    const { requestsPerDay, state } = this.#options;
    if (requestsPerDay === 0) return;
    const before = state.requests;
    try {
      const wallets = await this.#round.next(BATCH, now);
      if (wallets.length > 0 && (await this.#compareAll(wallets, signal)))
        await this.#save(verified, wallets.length, signal);
    } finally {
      this.#nextBatchAt = now + (Math.max(1, state.requests - before) * DAY_MS) / requestsPerDay;
    }
  }

  async #save(block: number, wallets: number, signal: AbortSignal): Promise<void> {
    const { connection, schema, chain } = this.#options;
    if (!signal.aborted) await saveVerified(connection, schema, { chainId: chain.chainId, block, wallets });
  }

  /** @returns false if the signal has ended it, or wallets differ */
  async #compareAll(
    wallets: readonly Address[],
    signal: AbortSignal,
    onCompared: (wallets: number) => void = () => {},
  ): Promise<boolean> {
    const differing: Address[] = [];
    let text = "";
    let block = 0;
    for (let start = 0; start < wallets.length && differing.length < MAX_DIFFERING; start += BATCH) {
      for (const wallet of await this.#findDiffering(wallets.slice(start, start + BATCH))) {
        if (signal.aborted) return false;
        const confirmed = await this.#confirm(wallet);
        if (!confirmed) continue;
        differing.push(wallet);
        text ||= confirmed.text;
        block = Math.max(block, confirmed.block);
      }
      if (signal.aborted) return false;
      onCompared(Math.min(wallets.length, start + BATCH));
    }
    if (differing.length === 0) return true;
    const others = differing.length > 1 ? ` ${differing.length} wallets differ, of ${wallets.length} to compare.` : "";
    await this.#differ({ wallets: differing, block, text, isOfLog: false }, others);
    return false;
  }

  async #differ(difference: Difference, others = ""): Promise<void> {
    const { connection, schema, chain, log } = this.#options;
    const text = `${difference.text}, at block ${difference.block}`;
    log(`${chain.name}: ${text}.${others} The chain is not answered for until its index is repaired.`);
    this.difference = difference;
    this.#contradictedIntervalMs = CONTRADICTED_INTERVAL_MS;
    await saveDifference(connection, schema, { chainId: chain.chainId, difference: text });
  }

  async #findDiffering(wallets: readonly Address[]): Promise<Address[]> {
    const { state } = this.#options;
    return this.#retry(async () => [...(await state.findDiffering(await this.#readLists(wallets))).keys()]);
  }

  /** Asks all endpoints about a wallet that one of them says differs. @param block - a past one, to compare the log */
  async #confirm(wallet: Address, block?: number): Promise<{ text: string; block: number } | undefined> {
    const { state, chain, log } = this.#options;
    return this.#retry(async () => {
      const indexed = await (block === undefined ? this.#readLists([wallet]) : this.#readLog(wallet, block));
      const [text] = await state.confirm(indexed, (endpoint, [line]) =>
        log(`${chain.name}: ${endpoint} alone has another state than the index: ${line}. It is not believed.`),
      );
      return text === undefined ? undefined : { text, block: Number(indexed.block.number) };
    });
  }

  async #readLists(wallets: readonly Address[]) {
    const { connection, schema, chain } = this.#options;
    const indexed = await readIndexedLists(connection, schema, chain.chainId, wallets);
    if (!indexed) throw new Error("The index has no block of the chain at the moment.");
    return indexed;
  }

  async #readLog(wallet: Address, number: number): Promise<IndexedLists> {
    const { connection, schema, chain, state } = this.#options;
    const past = { chainId: chain.chainId, wallet, block: number };
    return { block: await state.fetchBlock(number), lists: await readPastLists(connection, schema, past) };
  }

  async #retry<T>(run: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await run();
      } catch (error) {
        if (attempt === ATTEMPTS) throw error;
      }
      await sleep(RETRY_MS);
    }
  }

  #reportFailure(error: unknown, signal: AbortSignal) {
    const failure = describeError(error);
    // A lasting failure once.
    if (!signal.aborted && failure !== this.#lastFailure) {
      this.#options.log(`${this.#options.chain.name}: the index cannot be compared with the registries: ${failure}`);
    }
    this.#lastFailure = failure;
  }
}
