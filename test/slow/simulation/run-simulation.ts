import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { compileContracts } from "../../../local/compile-contracts.ts";
import { listQuestions } from "../../support/answers.ts";
import { dumpTables } from "../../support/index-state.ts";
import { launchIndexerProcess } from "../../support/indexer.ts";
import type { Random } from "../../support/random.ts";
import { RandomChain } from "../../support/random-chain.ts";
import { waitUntil, waitUntilIndexed } from "../../support/until.ts";
import { createWorld } from "../../support/world.ts";
import { createRandom } from "./create-random.ts";
import type { SimulatedDeployment } from "./deployment.ts";
import { ExpectedAnswers } from "./expected-answers.ts";
import { Reader } from "./reader.ts";
import { computeDepth, drawScript, type Incident } from "./script.ts";
import type { SimulationSettings } from "./settings.ts";

/** Ponder treats blocks of the simulated networks as final after this many more. */
const FINALITY = 30;
/** First block whose digests the API publishes, once it is final. */
const DIGEST_BLOCK = 1000n;

const SAMPLED_CHECKS = 150;
const SAMPLED_BLOCKS = 2;
/** An endpoint pauses for up to 30 s after rate limits, and a stalled body takes 30 s. Several may follow each other. */
const CATCH_UP_SECONDS = 300;
const NEXT_BLOCK_SECONDS = 5;
const ATTEMPTS = 3;
const PROGRESS_MS = 5_000;

/** Thrown when an answer differs from the registries'. */
export class DifferenceError extends Error {
  override name = "DifferenceError";

  constructor(lines: readonly string[]) {
    const shown = lines.slice(0, 20);
    const more = lines.length > shown.length ? [`and ${lines.length - shown.length} more`] : [];
    super([...shown, ...more].map((line) => `  ${line}`).join("\n"));
  }
}

type Totals = Record<string, number>;

/** One run: random operations and incidents. Throws a DifferenceError. */
export class Simulation {
  readonly #settings: SimulationSettings;
  readonly #deployment: SimulatedDeployment;
  readonly #chains: readonly [RandomChain, RandomChain];
  readonly #random: Random;
  readonly #say: (text: string) => void;
  readonly #expected = new ExpectedAnswers();
  readonly #reader: Reader;
  /** Highest block of each chain so far. Finality is counted from it. */
  readonly #highest = new Map<RandomChain, bigint>();
  readonly #counts = { reorgs: 0, blocksUndone: 0, deepest: 0, checkpoints: 0, pastBlocks: 0 };
  #doing = "";

  private constructor(
    settings: SimulationSettings,
    deployment: SimulatedDeployment,
    chains: readonly [RandomChain, RandomChain],
    say: (text: string) => void,
  ) {
    [this.#settings, this.#deployment, this.#chains, this.#say] = [settings, deployment, chains, say];
    this.#random = createRandom(settings.seed, "run");
    this.#reader = new Reader(this.#expected, chains, createRandom(settings.seed, "reader"), deployment.api);
  }

  static async create(deployment: SimulatedDeployment, settings: SimulationSettings, say: (text: string) => void) {
    const code = await compileContracts();
    const [first, second] = await Promise.all(
      deployment.chains.map(async (local) => {
        const random = createRandom(settings.seed, "operations", local.chainId);
        return new RandomChain(local, await createWorld(local, code), random);
      }),
    );
    if (!first || !second) throw new Error("The simulation needs two chains.");
    return new Simulation(settings, deployment, [first, second], say);
  }

  /** Sends the operations, runs the incidents, and compares all answers. */
  async run(): Promise<Totals> {
    const progress = setInterval(() => this.#sayProgress(), PROGRESS_MS);
    try {
      this.#doing = "making history";
      await this.#makeHistory();
      this.#doing = "backfill";
      this.#deployment.setCalm(false);
      await this.#deployment.startService();
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
        await this.#runIncident(next);
      }
      this.#throwDifferences([...this.#reader.differences, ...this.#deployment.differences]);
    }
  }

  async #runIncident(incident: Incident) {
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

  /** Mines blocks with random operations, and records the registries' state after each. */
  async #mine(chain: RandomChain, blocks: number) {
    for (let block = 0; block < blocks; block++) {
      await chain.mineRandomBlock();
      await this.#record(chain);
    }
  }

  async #record(chain: RandomChain) {
    const number = await this.#expected.record(chain);
    if (number > (this.#highest.get(chain) ?? 0n)) this.#highest.set(chain, number);
  }

  async #reorg(chain: RandomChain, { reach, early }: { reach: number; early: boolean }) {
    await this.#pause(chain, { early });
    const head = await chain.local.client.getBlockNumber();
    const final = (this.#highest.get(chain) ?? head) - BigInt(FINALITY);
    const depth = computeDepth(reach, Number(head - final));
    await chain.chain.revertBlocks(depth);
    await this.#mine(chain, depth + this.#random.integer(0, 2));
    this.#counts.reorgs++;
    this.#counts.blocksUndone += depth;
    this.#counts.deepest = Math.max(this.#counts.deepest, depth);
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
        return await waitUntilIndexed(this.#deployment.database, chain.local, { seconds: NEXT_BLOCK_SECONDS });
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
    this.#deployment.setCalm(true);
    // First of all, as a re-index in between would make it start over.
    if (isLast) await inTime(this.#deployment.untilReindexed());
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
      if (isLast) await this.#comparePublishedDigests(chain);
      this.#counts.pastBlocks += blocksBack.length;
    }
    this.#settleReader();
    this.#counts.checkpoints++;
    this.#deployment.setCalm(isLast);
  }

  async #compare(
    chain: RandomChain,
    questions: ReturnType<typeof listQuestions>,
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
      ...((await chain.comparePublishedDigests(api.url)) ?? []),
    ];
  }

  async #comparePublishedDigests(chain: RandomChain) {
    const { url } = this.#deployment.api;
    const compared = waitUntil("the API publishes the digests", () => chain.comparePublishedDigests(url), 120);
    this.#throwDifferences((await inTime(compared)) ?? []);
  }

  /** Compares all rows, including the log, with a new index of the same chains. */
  async #compareFromScratch() {
    const { database, databaseUrl, chains } = this.#deployment;
    for (const chain of this.#chains) {
      await chain.mineEmptyBlocks(FINALITY + 1);
      await this.#waitUntilIndexed(chain);
    }
    await database.query("create database scratch");
    const scratchUrl = new URL(databaseUrl);
    scratchUrl.pathname = "/scratch";
    const scratch = new pg.Pool({ connectionString: scratchUrl.href });
    const indexer = await launchIndexerProcess({ databaseUrl: scratchUrl.href, chains });
    try {
      for (const chain of chains) await inTime(waitUntilIndexed(scratch, chain, { seconds: CATCH_UP_SECONDS }));
      const [expected, actual] = [
        await dumpTables(scratchUrl.href, "registry"),
        await dumpTables(databaseUrl, "registry"),
      ];
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

  #countTotals(): Totals {
    const ofChains = (name: "answers" | "answersOverHttp" | "answersInSql" | "digests") =>
      this.#chains.reduce((sum, chain) => sum + chain[name], 0);
    const { rpcs } = this.#deployment;
    const ofRpcs = (name: "all" | "failed" | "falseAnswers") => rpcs.reduce((sum, { calls }) => sum + calls[name], 0);
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
      "RPC lies": ofRpcs("falseAnswers"),
      "RPC phases": rpcs.reduce((sum, { phases }) => sum + phases.length, 0),
      ...this.#countFaults(),
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

  #countFaults(): Totals {
    const totals: Totals = {};
    for (const { faults } of this.#deployment.rpcs) {
      for (const [fault, count] of faults) totals[`RPC: ${fault}`] = (totals[`RPC: ${fault}`] ?? 0) + count;
    }
    return totals;
  }

  #sayProgress() {
    const { kills, postgresRestarts } = this.#deployment.counts;
    this.#say(
      `${this.#operations} operations, ${this.#counts.reorgs} reorgs, ${kills} kills, ${postgresRestarts} Postgres restarts, ${this.#reader.counts.right} answers read; ${this.#doing}`,
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
