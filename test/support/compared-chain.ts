import { expect, onTestFinished } from "vitest";
import { compileContracts } from "../../local/compile-contracts.ts";
import { type Answers, findDifferences, listQuestions, type WorldQuestion } from "./answers.ts";
import { expectExplained, readExplorer } from "./explorer-answers.ts";
import type { Queries } from "./index-state.ts";
import type { Random } from "./random.ts";
import { RandomChain } from "./random-chain.ts";
import { launchChain } from "./setup.ts";
import { createWorld } from "./world.ts";

/** Number of comparisons over which the explanations of all checks are spread. */
const PARTS = 3;

/** Picks the answers to the same questions. */
const pick = (answers: Answers, like: Answers): Answers =>
  new Map([...answers].filter(([question]) => like.has(question)));

/** A random chain with comparisons that fail the test. */
export class ComparedChain extends RandomChain {
  #explained = 0;
  /** Number of compared answers from the explorer. */
  answersOfExplorer = 0;

  /** Checks to compare: all of them, unless a test sets fewer. Lists are always compared. */
  questions: readonly WorldQuestion[] = listQuestions(this.world);

  /** Launches a chain for several tests of a file. The caller stops it. */
  static async launch(chainId: number, random: Random): Promise<ComparedChain> {
    const local = await launchChain(chainId);
    return new ComparedChain(local, await createWorld(local, await compileContracts()), random);
  }

  static async create(chainId: number, random: Random): Promise<ComparedChain> {
    const subject = await ComparedChain.launch(chainId, random);
    onTestFinished(() => subject.local.stop());
    return subject;
  }

  async expectSameAnswers(databaseUrl: string, schema: string, blocksBack: readonly number[] = []): Promise<void> {
    const { questions } = this;
    expect(await this.compareIndex(databaseUrl, schema, { questions, blocksBack })).toEqual([]);
  }

  async expectSameAnswersOverHttp(
    apiUrl: string,
    key?: string,
    { block, blocksBack = [] }: { block?: bigint; blocksBack?: readonly number[] } = {},
  ): Promise<void> {
    const { questions } = this;
    const options = { questions, blocksBack, ...(key && { key }), ...(block && { block }) };
    expect(await this.compareHttp(apiUrl, options)).toEqual([]);
  }

  /** Compares the explorer's lists, explanations, and history up to the newest block and some before it. */
  async expectSameInExplorer(apiUrl: string, blocksBack: readonly number[] = []): Promise<void> {
    const { chainId, client } = this.local;
    const newest = await client.getBlockNumber();
    const answers = await this.askRegistries(newest, this.questions);
    // A part of the questions each time, all of them over several calls.
    const part = this.#explained++ % PARTS;
    const asked = this.questions.filter((_, index) => index % PARTS === part);
    await expectExplained({ apiUrl, chainId, block: newest }, answers, asked);
    this.answersOfExplorer += asked.length;

    for (const { address } of this.world.wallets) {
      const { lists, listsAt } = await readExplorer(apiUrl, chainId, address, newest);
      expect(findDifferences(lists, pick(answers, lists), "explorer")).toEqual([]);
      for (const back of [0, ...blocksBack]) {
        const past = newest - BigInt(back);
        const folded = listsAt(past);
        const expected = pick(await this.askRegistries(past, this.questions), folded);
        expect(findDifferences(folded, expected, `history up to block ${past}`)).toEqual([]);
        this.answersOfExplorer += folded.size;
      }
    }
  }

  async expectSameAnswersInSql(databaseUrl: string, blocksBack: readonly number[] = []): Promise<void> {
    const { questions } = this;
    expect(await this.compareSql(databaseUrl, { questions, blocksBack })).toEqual([]);
  }

  async expectSameDigests(database: Queries, blocksBack: readonly number[] = []): Promise<void> {
    expect(await this.compareDigests(database, blocksBack)).toEqual([]);
  }
}
