import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { compileContracts } from "../sandbox/contracts.ts";
import { questionsOf } from "../test/support/answers.ts";
import { dumpTables } from "../test/support/index-state.ts";
import { launchIndexerProcess } from "../test/support/indexer-process.ts";
import type { Random } from "../test/support/random.ts";
import { RandomChain } from "../test/support/random-chain.ts";
import { until, untilIndexed } from "../test/support/until.ts";
import { createWorld } from "../test/support/world.ts";
import type { Deployment } from "./deployment.ts";
import { drawFor } from "./draw.ts";
import { Reader } from "./reader.ts";
import { depthOf, drawScript, type Incident } from "./script.ts";
import type { SimulationSettings } from "./settings.ts";
import { Truth } from "./truth.ts";

/** Ponder takes blocks of the simulated networks for final after so many more. */
const FINALITY = 30;
/** The first block whose digests the API tells, once it is final. */
const DIGEST_BLOCK = 1000n;

const SAMPLED_CHECKS = 150;
const SAMPLED_BLOCKS = 2;
const CATCH_UP_SECONDS = 150;
const NEXT_BLOCK_SECONDS = 5;
const ATTEMPTS = 3;
const PROGRESS_MS = 5_000;

/** Something was not as the registries have it. */
export class DifferenceError extends Error {
  override name = "DifferenceError";

  constructor(lines: readonly string[]) {
    const shown = lines.slice(0, 20);
    const more = lines.length > shown.length ? [`and ${lines.length - shown.length} more`] : [];
    super([...shown, ...more].map((line) => `  ${line}`).join("\n"));
  }
}

type Tally = Record<string, number>;

/** One run: operations, and all that befalls the service meanwhile. Throws a DifferenceError. */
export class Simulation {
  readonly #settings: SimulationSettings;
  readonly #deployment: Deployment;
  readonly #chains: readonly [RandomChain, RandomChain];
  readonly #random: Random;
  readonly #say: (text: string) => void;
  readonly #truth = new Truth();
  readonly #reader: Reader;
  /** The highest block that each chain has had: what is final is counted from it. */
  readonly #highest = new Map<RandomChain, bigint>();
  readonly #counts = { reorgs: 0, blocksUndone: 0, deepest: 0, checkpoints: 0, pastBlocks: 0 };
  #doing = "";

  private constructor(
    settings: SimulationSettings,
    deployment: Deployment,
    chains: readonly [RandomChain, RandomChain],
    say: (text: string) => void,
  ) {
    [this.#settings, this.#deployment, this.#chains, this.#say] = [settings, deployment, chains, say];
    this.#random = drawFor(settings.seed, "run");
    this.#reader = new Reader(this.#truth, chains, drawFor(settings.seed, "reader"), deployment.api);
  }

  static async on(deployment: Deployment, settings: SimulationSettings, say: (text: string) => void) {
    const code = await compileContracts();
    const [first, second] = await Promise.all(
      deployment.chains.map(async (local) => {
        const random = drawFor(settings.seed, "operations", local.chainId);
        return new RandomChain(local, await createWorld(local, code), random);
      }),
    );
    if (!first || !second) throw new Error("There are no two chains.");
    return new Simulation(settings, deployment, [first, second], say);
  }

  /** Sends the operations, lets everything happen, and compares. */
  async run(): Promise<Tally> {
    const progress = setInterval(() => this.#sayProgress(), PROGRESS_MS);
    try {
      this.#doing = "making history";
      await this.#makeHistory();
      this.#doing = "backfill";
      this.#deployment.setCalm(false);
      await this.#deployment.startService();
      const reading = this.#reader.run();
      reading.catch(() => {});
      for (const chain of this.#chains) await this.#untilIndexed(chain);
      await this.#playScript();
      this.#doing = "last checkpoint";
      await this.#checkpoint({ isLast: true });
      this.#reader.stop();
      await reading;
      this.#settleReader();
      this.#doing = "indexing from scratch";
      await this.#compareFromScratch();
      return this.#tally();
    } finally {
      clearInterval(progress);
      this.#reader.stop();
    }
  }

  /** Some of it is backfilled, and the block of the API's first digests is final. */
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
        await this.#befall(next);
      }
      this.#refuseDifferences([...this.#reader.differences, ...this.#deployment.differences]);
    }
  }

  async #befall(incident: Incident) {
    this.#doing = incident.kind;
    switch (incident.kind) {
      case "reorg":
        return this.#reorg(this.#random.pick(this.#chains), incident);
      case "checkpoint":
        return this.#checkpoint({ isLast: false });
      case "kill indexer":
        return this.#deployment.killIndexer();
      case "kill Ponder":
        return this.#deployment.killPonder();
      case "kill API":
        return this.#deployment.killApi();
      case "stop Postgres":
        return this.#deployment.restartPostgres(false);
      case "crash Postgres":
        return this.#deployment.restartPostgres(true);
      case "re-index":
        return this.#deployment.reindex();
    }
  }

  /** Mines blocks with random operations, and notes what the registries say after each. */
  async #mine(chain: RandomChain, blocks: number) {
    for (let block = 0; block < blocks; block++) {
      await chain.mineRandomBlock();
      await this.#note(chain);
    }
  }

  async #note(chain: RandomChain) {
    const number = await this.#truth.note(chain);
    if (number > (this.#highest.get(chain) ?? 0n)) this.#highest.set(chain, number);
  }

  async #reorg(chain: RandomChain, { reach, early }: { reach: number; early: boolean }) {
    await this.#pause(chain, { early });
    const head = await chain.local.client.getBlockNumber();
    const final = (this.#highest.get(chain) ?? head) - BigInt(FINALITY);
    const depth = depthOf(reach, Number(head - final));
    await chain.chain.takeBack(depth);
    await this.#mine(chain, depth + this.#random.integer(0, 2));
    this.#counts.reorgs++;
    this.#counts.blocksUndone += depth;
    this.#counts.deepest = Math.max(this.#counts.deepest, depth);
  }

  /** Until the index has the newest block, or is anywhere on its way to it. */
  async #pause(chain: RandomChain, { early }: { early: boolean }) {
    const ms = this.#random.integer(0, 400);
    if (early) await sleep(ms);
    else await this.#untilIndexed(chain);
  }

  /** Until the newest block is indexed. Chains do not stand still: when that takes long, each has a next one. */
  async #untilIndexed(chain: RandomChain) {
    for (const deadline = Date.now() + CATCH_UP_SECONDS * 1000; Date.now() < deadline; ) {
      try {
        return await untilIndexed(this.#deployment.database, chain.local, { seconds: NEXT_BLOCK_SECONDS });
      } catch {
        for (const each of this.#chains) {
          await each.mineEmptyBlocks(1);
          await this.#note(each);
        }
      }
    }
    const head = await chain.local.client.getBlockNumber();
    const what = `chain ${chain.local.chainId} was not indexed up to its newest block, ${head}`;
    throw new DifferenceError([`After ${CATCH_UP_SECONDS} s ${what}.`]);
  }

  /** Everything is compared while nothing new happens; a restart that is still under way may have it begin again. */
  async #checkpoint({ isLast }: { isLast: boolean }) {
    this.#deployment.setCalm(true);
    // Before anything else: a re-index that comes in between would have it begin again.
    if (isLast) await inTime(this.#deployment.untilReindexed());
    for (const chain of this.#chains) {
      const everything = questionsOf(chain.world);
      const sample = everything.filter(() => this.#random.chance(SAMPLED_CHECKS / everything.length));
      const head = Number(await chain.local.client.getBlockNumber());
      const blocksBack = Array.from({ length: SAMPLED_BLOCKS }, () => this.#random.integer(1, head - 1));
      for (let attempt = 1; ; attempt++) {
        await this.#untilIndexed(chain);
        try {
          const questions = isLast ? everything : sample;
          this.#refuseDifferences(await this.#compare(chain, questions, sample, blocksBack));
          break;
        } catch (error) {
          if (error instanceof DifferenceError || attempt === ATTEMPTS) throw error;
        }
      }
      if (isLast) await this.#compareToldDigests(chain);
      this.#counts.pastBlocks += blocksBack.length;
    }
    this.#settleReader();
    this.#counts.checkpoints++;
    this.#deployment.setCalm(isLast);
  }

  async #compare(
    chain: RandomChain,
    questions: ReturnType<typeof questionsOf>,
    sample: typeof questions,
    blocksBack: readonly number[],
  ): Promise<string[]> {
    const { databaseUrl, database, api } = this.#deployment;
    return [
      ...(await chain.compareIndex(databaseUrl, "registry", { questions })),
      ...(await chain.compareIndex(databaseUrl, "registry", { questions: sample, blocksBack })),
      ...(await chain.compareHttp(api.url, { questions })),
      ...(await chain.compareSql(databaseUrl, { questions: sample, blocksBack })),
      ...(await chain.compareDigests(database, blocksBack)),
      ...((await chain.compareToldDigests(api.url)) ?? []),
    ];
  }

  async #compareToldDigests(chain: RandomChain) {
    const { url } = this.#deployment.api;
    const told = until("the API tells the digests", () => chain.compareToldDigests(url), 120);
    this.#refuseDifferences((await inTime(told)) ?? []);
  }

  /** The same chains indexed by an indexer that nothing befalls: the same rows, the log included. */
  async #compareFromScratch() {
    const { database, databaseUrl, chains } = this.#deployment;
    for (const chain of this.#chains) {
      await chain.mineEmptyBlocks(FINALITY + 1);
      await this.#untilIndexed(chain);
    }
    await database.query("create database scratch");
    const scratchUrl = new URL(databaseUrl);
    scratchUrl.pathname = "/scratch";
    const scratch = new pg.Pool({ connectionString: scratchUrl.href });
    const indexer = await launchIndexerProcess({ databaseUrl: scratchUrl.href, chains });
    try {
      for (const chain of chains) await inTime(untilIndexed(scratch, chain, { seconds: CATCH_UP_SECONDS }));
      const [expected, actual] = [
        await dumpTables(scratchUrl.href, "registry"),
        await dumpTables(databaseUrl, "registry"),
      ];
      this.#refuseDifferences(
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
    this.#refuseDifferences(this.#reader.differences);
  }

  #refuseDifferences(lines: readonly string[]) {
    if (lines.length > 0) throw new DifferenceError(lines);
  }

  #tally(): Tally {
    const ofChains = (name: "answers" | "answersOverHttp" | "answersInSql" | "digests") =>
      this.#chains.reduce((sum, chain) => sum + chain[name], 0);
    const ofRpcs = (name: "all" | "failed" | "lies") =>
      this.#deployment.rpcs.reduce((sum, { calls }) => sum + calls[name], 0);
    const { kills, postgresRestarts, reindexes, endedByThemselves } = this.#deployment.counts;
    const { right, refused, unreached } = this.#reader.counts;
    return {
      operations: this.#operations,
      reorgs: this.#counts.reorgs,
      "blocks undone": this.#counts.blocksUndone,
      "deepest reorg": this.#counts.deepest,
      kills,
      "Postgres restarts": postgresRestarts,
      "re-indexes": reindexes,
      "RPC calls": ofRpcs("all"),
      "RPC calls failed": ofRpcs("failed"),
      "RPC lies": ofRpcs("lies"),
      "indexer ended by itself": endedByThemselves,
      checkpoints: this.#counts.checkpoints,
      "past blocks": this.#counts.pastBlocks,
      "answers compared": ofChains("answers"),
      "answers over HTTP": ofChains("answersOverHttp"),
      "answers in SQL": ofChains("answersInSql"),
      "digests compared": ofChains("digests"),
      "reader's answers": right,
      "reader's 503": refused,
      "reader without connection": unreached,
    };
  }

  #sayProgress() {
    const { kills, postgresRestarts } = this.#deployment.counts;
    this.#say(
      `${this.#operations} operations, ${this.#counts.reorgs} reorgs, ${kills} kills, ${postgresRestarts} Postgres restarts, ${this.#reader.counts.right} answers read; ${this.#doing}`,
    );
  }
}

/** What never comes about is not as it should be either. */
const inTime = <T>(waiting: Promise<T>): Promise<T> =>
  waiting.catch((error: Error) => {
    throw new DifferenceError([error.message]);
  });

const without = (rows: readonly string[] = [], others: readonly string[] = []): string[] => {
  const known = new Set(others);
  return rows.filter((row) => !known.has(row));
};
