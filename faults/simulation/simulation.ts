import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { compileContracts } from "../../local/compile-contracts.ts";
import { listQuestions, type WorldQuestion } from "../../test/support/answers.ts";
import { dumpTables } from "../../test/support/index-state.ts";
import { launchIndexerProcess } from "../../test/support/indexer.ts";
import { createRandom, type Random } from "../../test/support/random.ts";
import { RandomChain } from "../../test/support/random-chain.ts";
import { waitUntil, waitUntilIndexed } from "../../test/support/setup.ts";
import { createWorld } from "../../test/support/world.ts";
import { Stack } from "../stack.ts";
import { Reader } from "./reader.ts";
import { computeDepth, drawScript, type Reorg } from "./script.ts";
import { startUnreliableRpcs, type UnreliableRpc } from "./unreliable-rpc.ts";

/** Two networks with both registries. */
const CHAIN_IDS = [10, 8453];
/** Age of the first block, as blocks of real networks are not all recent. */
const CHAIN_AGE_MS = 7_200_000;
/** Ponder sends as few as 3 requests a second after rate limits. Faster polls would leave none for blocks and logs. */
const POLLING_INTERVAL_MS = "400";
/** Ponder treats blocks of the simulated networks as final after this many more. */
const FINALITY = 30;
/** First block whose digests the API publishes, once it is final. */
const DIGEST_BLOCK = 1000n;

const SHORT_OPS = 100;
const SAMPLED_CHECKS = 150;
const SAMPLED_BLOCKS = 2;
/** An endpoint pauses for up to 30 s after rate limits, and a stalled body takes 30 s. Several may follow each other. */
const CATCH_UP_SECONDS = 300;
const NEXT_BLOCK_SECONDS = 5;
const ATTEMPTS = 3;
const PROGRESS_MS = 5_000;

export type SimulationSettings = {
  seed: number;
  /** Minimum number of registry operations to send. */
  ops: number;
};

/** Thrown when an answer differs from the registries'. */
export class DifferenceError extends Error {
  override name = "DifferenceError";

  constructor(lines: readonly string[]) {
    const shown = lines.slice(0, 20);
    const more = lines.length > shown.length ? [`and ${lines.length - shown.length} more`] : [];
    super([...shown, ...more].map((line) => `  ${line}`).join("\n"));
  }
}

/** One run: random operations and incidents. Throws a DifferenceError. */
export class Simulation {
  readonly #settings: SimulationSettings;
  readonly #stack: Stack;
  readonly #rpcs: readonly UnreliableRpc[];
  readonly #chains: readonly [RandomChain, RandomChain];
  readonly #random: Random;
  readonly #say: (text: string) => void;
  readonly #reader: Reader;
  /** Highest block of each chain so far. Finality is counted from it. */
  readonly #highest = new Map<RandomChain, bigint>();
  readonly #counts = new Map<string, number>();
  #doing = "";

  private constructor(
    settings: SimulationSettings,
    { stack, rpcs }: { stack: Stack; rpcs: readonly UnreliableRpc[] },
    chains: readonly [RandomChain, RandomChain],
    say: (text: string) => void,
  ) {
    [this.#settings, this.#stack, this.#rpcs, this.#chains, this.#say] = [settings, stack, rpcs, chains, say];
    this.#random = createRandom(settings.seed, "run");
    this.#reader = new Reader(stack, chains, createRandom(settings.seed, "reader"));
  }

  static async create(settings: SimulationSettings, say: (text: string) => void): Promise<Simulation> {
    const { seed, ops } = settings;
    let rpcs: UnreliableRpc[] = [];
    const stack = await Stack.start({
      chainIds: CHAIN_IDS,
      startsAt: new Date(Date.now() - CHAIN_AGE_MS),
      startRpcs: async (chains) => {
        rpcs = await startUnreliableRpcs(seed, chains, { isShortRun: ops < SHORT_OPS });
        return rpcs;
      },
      indexerEnv: { POLLING_INTERVAL_MS },
    });
    const code = await compileContracts();
    const [first, second] = await Promise.all(
      stack.chains.map(async (local) => {
        const random = createRandom(seed, "operations", local.chainId);
        return new RandomChain(local, await createWorld(local, code), random);
      }),
    );
    if (!first || !second) throw new Error("The simulation needs two chains.");
    return new Simulation(settings, { stack, rpcs }, [first, second], say);
  }

  /** Sends the operations, runs the incidents, and compares all answers. @returns what has happened, and how often */
  async run(): Promise<ReadonlyMap<string, number>> {
    const progress = setInterval(() => this.#sayProgress(), PROGRESS_MS);
    try {
      this.#doing = "making history";
      await this.#makeHistory();
      this.#doing = "backfill";
      this.#setCalm(false);
      await this.#stack.startService();
      const reading = this.#reader.run();
      reading.catch(() => {});
      for (const chain of this.#chains) await this.#waitUntilIndexed(chain);
      await this.#playScript();
      this.#doing = "last checkpoint";
      await this.#checkpoint({ isLast: true });
      this.#reader.stop();
      await reading;
      this.#settleReader();
      this.#doing = "indexing from scratch";
      await this.#compareFromScratch();
      return this.#countTotals();
    } finally {
      clearInterval(progress);
      this.#reader.stop();
    }
  }

  /** Stops everything. @returns the folder of the database, and of the logs if it is kept */
  async stop({ keepsFolder }: { keepsFolder: boolean }): Promise<string> {
    await this.#stack.stop({ keepsFolder });
    const { folder } = this.#stack.postgres;
    for (const [index, { chainId, phases }] of keepsFolder ? this.#rpcs.entries() : []) {
      await writeFile(join(folder, `rpc-${index + 1}-chain-${chainId}.log`), phases.join("\n"));
    }
    return folder;
  }

  #setCalm(isCalm: boolean) {
    for (const rpc of this.#rpcs) rpc.setCalm(isCalm);
  }

  #count(name: string, count = 1) {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + count);
  }

  /** Mines blocks to backfill, so that the block of the API's first digests is final. */
  async #makeHistory() {
    await Promise.all(
      this.#chains.map(async (chain) => {
        await chain.mineRandomBlocks(10);
        await chain.mineUpTo(DIGEST_BLOCK);
        await this.#mine(chain, FINALITY + 10);
      }),
    );
  }

  get #operations() {
    return this.#chains.reduce((sum, { operations }) => sum + operations, 0);
  }

  async #playScript() {
    const { seed, ops } = this.#settings;
    const cues = [...drawScript(seed, ops)];
    const before = this.#operations;
    const done = () => this.#operations - before;
    while (done() < ops || cues.length > 0) {
      const chain = this.#random.pick(this.#chains);
      await this.#mine(chain, this.#random.integer(1, 3));
      await this.#pause(chain, { early: this.#random.chance(0.5) });
      for (let next = cues[0]; next && next.at <= done() / ops; next = cues[0]) {
        cues.shift();
        if ("reorg" in next) await this.#reorg(this.#random.pick(this.#chains), next.reorg);
        else if ("fault" in next) {
          this.#doing = next.fault.name;
          this.#count(next.fault.name);
          await next.fault.run(this.#stack);
        } else await this.#checkpoint({ isLast: false });
      }
      this.#throwDifferences([...this.#reader.differences, ...this.#stack.apiEnds]);
    }
  }

  /** Mines blocks with random operations, and records the registries' state after each. */
  async #mine(chain: RandomChain, blocks: number) {
    for (let block = 0; block < blocks; block++) {
      await chain.mineRandomBlock();
      await this.#record(chain);
    }
  }

  async #record(chain: RandomChain) {
    const number = await this.#reader.record(chain);
    if (number > (this.#highest.get(chain) ?? 0n)) this.#highest.set(chain, number);
  }

  async #reorg(chain: RandomChain, { reach, early }: Reorg) {
    this.#doing = "reorg";
    await this.#pause(chain, { early });
    const head = await chain.local.client.getBlockNumber();
    const final = (this.#highest.get(chain) ?? head) - BigInt(FINALITY);
    const depth = computeDepth(reach, Number(head - final));
    await chain.chain.revertBlocks(depth);
    await this.#mine(chain, depth + this.#random.integer(0, 2));
    this.#count("reorgs");
    this.#count("blocks undone", depth);
  }

  /** Waits until the index has the newest block, or with `early` for a random time before that. */
  async #pause(chain: RandomChain, { early }: { early: boolean }) {
    const ms = this.#random.integer(0, 400);
    if (early) await sleep(ms);
    else await this.#waitUntilIndexed(chain);
  }

  /** Waits until the newest block is indexed. Meanwhile each chain mines a block every few seconds. */
  async #waitUntilIndexed(chain: RandomChain) {
    for (const deadline = Date.now() + CATCH_UP_SECONDS * 1000; Date.now() < deadline; ) {
      try {
        return await waitUntilIndexed(this.#stack.database, chain.local, { seconds: NEXT_BLOCK_SECONDS });
      } catch {
        for (const each of this.#chains) {
          await each.mineEmptyBlocks(1);
          await this.#record(each);
        }
      }
    }
    const head = await chain.local.client.getBlockNumber();
    const what = `chain ${chain.local.chainId} was not indexed up to its newest block, ${head}`;
    throw new DifferenceError([`After ${CATCH_UP_SECONDS} s ${what}.`]);
  }

  /** Compares everything while there are no new incidents. A restart in flight may make it start over. */
  async #checkpoint({ isLast }: { isLast: boolean }) {
    this.#doing = "checkpoint";
    this.#setCalm(true);
    // First of all, as a re-index in between would make it start over.
    if (isLast) await inTime(this.#stack.untilReindexed());
    for (const chain of this.#chains) {
      const everything = listQuestions(chain.world);
      const sample = everything.filter(() => this.#random.chance(SAMPLED_CHECKS / everything.length));
      const head = Number(await chain.local.client.getBlockNumber());
      const blocksBack = Array.from({ length: SAMPLED_BLOCKS }, () => this.#random.integer(1, head - 1));
      for (let attempt = 1; ; attempt++) {
        await this.#waitUntilIndexed(chain);
        try {
          const questions = isLast ? everything : sample;
          this.#throwDifferences(await this.#compare(chain, questions, sample, blocksBack));
          break;
        } catch (error) {
          if (error instanceof DifferenceError || attempt === ATTEMPTS) throw error;
        }
      }
      if (isLast) {
        const compare = () => chain.comparePublishedDigests(this.#apiUrl);
        this.#throwDifferences((await inTime(waitUntil("the API publishes the digests", compare, 120))) ?? []);
      }
      this.#count("past blocks", blocksBack.length);
    }
    this.#settleReader();
    this.#count("checkpoints");
    this.#setCalm(isLast);
  }

  get #apiUrl() {
    return `http://127.0.0.1:${this.#stack.ports[0]}`;
  }

  async #compare(
    chain: RandomChain,
    questions: readonly WorldQuestion[],
    sample: readonly WorldQuestion[],
    blocksBack: readonly number[],
  ): Promise<string[]> {
    const { databaseUrl, database } = this.#stack;
    return [
      ...(await chain.compareIndex(databaseUrl, "registry", { questions })),
      ...(await chain.compareIndex(databaseUrl, "registry", { questions: sample, blocksBack })),
      ...(await chain.compareHttp(this.#apiUrl, { questions })),
      ...(await chain.compareSql(databaseUrl, { questions: sample, blocksBack })),
      ...(await chain.compareDigests(database, blocksBack)),
      ...((await chain.comparePublishedDigests(this.#apiUrl)) ?? []),
    ];
  }

  /** Compares all rows, including the log, with a new index of the same chains. */
  async #compareFromScratch() {
    const { database, databaseUrl, chains } = this.#stack;
    for (const chain of this.#chains) {
      await chain.mineEmptyBlocks(FINALITY + 1);
      await this.#waitUntilIndexed(chain);
    }
    await database.query("create database scratch");
    const scratchUrl = new URL("/scratch", databaseUrl).href;
    const scratch = new pg.Pool({ connectionString: scratchUrl });
    const indexer = await launchIndexerProcess({ databaseUrl: scratchUrl, chains });
    try {
      for (const chain of chains) await inTime(waitUntilIndexed(scratch, chain, { seconds: CATCH_UP_SECONDS }));
      const [expected, actual] = [await dumpTables(scratchUrl, "registry"), await dumpTables(databaseUrl, "registry")];
      this.#throwDifferences(
        Object.keys(expected).flatMap((table) => [
          ...without(actual[table], expected[table]).map((row) => `${table} has ${row}, a new index does not`),
          ...without(expected[table], actual[table]).map((row) => `${table} lacks ${row}, a new index does not`),
        ]),
      );
    } finally {
      await indexer.stop();
      await scratch.end();
    }
  }

  #settleReader() {
    this.#reader.settle();
    this.#throwDifferences(this.#reader.differences);
  }

  #throwDifferences(lines: readonly string[]) {
    if (lines.length > 0) throw new DifferenceError(lines);
  }

  #countTotals(): ReadonlyMap<string, number> {
    for (const { operations, answers, answersOverHttp, answersInSql, digests } of this.#chains) {
      this.#count("operations", operations);
      this.#count("answers compared", answers);
      this.#count("answers over HTTP", answersOverHttp);
      this.#count("answers in SQL", answersInSql);
      this.#count("digests compared", digests);
    }
    for (const { calls, phases, faults } of this.#rpcs) {
      this.#count("RPC calls", calls.all);
      this.#count("RPC calls failed", calls.failed);
      this.#count("RPC lies", calls.falseAnswers);
      this.#count("RPC phases", phases.length);
      for (const [fault, count] of faults) this.#count(`RPC: ${fault}`, count);
    }
    const { right, refused, unreached } = this.#reader.counts;
    this.#count("indexer ended by itself", this.#stack.indexerEnds);
    this.#count("reader's answers", right);
    this.#count("reader's 503", refused);
    this.#count("reader without connection", unreached);
    return this.#counts;
  }

  #sayProgress() {
    const counts = [...this.#counts].map(([name, count]) => `${count} ${name}`);
    this.#say(
      [`${this.#operations} operations`, ...counts, `${this.#reader.counts.right} answers read`, this.#doing].join(
        ", ",
      ),
    );
  }
}

/** Turns a timeout into a DifferenceError. */
const inTime = <T>(waiting: Promise<T>): Promise<T> =>
  waiting.catch((error: Error) => {
    throw new DifferenceError([error.message]);
  });

const without = (rows: readonly string[] = [], others: readonly string[] = []): string[] => {
  const known = new Set(others);
  return rows.filter((row) => !known.has(row));
};
