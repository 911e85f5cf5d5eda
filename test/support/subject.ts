import { expect, onTestFinished } from "vitest";
import { compileContracts } from "../../sandbox/contracts.ts";
import { type Answers, differences, type Question, questionsOf } from "./answers.ts";
import { expectExplained, readExplorer } from "./explorer-answers.ts";
import type { Queries } from "./index-state.ts";
import type { Random } from "./random.ts";
import { RandomChain } from "./random-chain.ts";
import { launchChain } from "./setup.ts";
import { createWorld } from "./world.ts";

/** In how many parts the explorer is asked why checks are so. */
const PARTS = 3;

/** Those answers that others are to be compared with. */
const pick = (answers: Answers, like: Answers): Answers =>
  new Map([...answers].filter(([question]) => like.has(question)));

/** A random chain until the test is over, with comparisons that fail the test. */
export class Subject extends RandomChain {
  #explained = 0;
  /** How many answers the explorer told. */
  answersOfExplorer = 0;

  /** The checks that are compared: all of them, unless a test asks fewer. Lists are always compared. */
  questions: readonly Question[] = questionsOf(this.world);

  /** For several tests of a file. The caller stops its chain. */
  static async launch(chainId: number, random: Random): Promise<Subject> {
    const local = await launchChain(chainId);
    return new Subject(local, await createWorld(local, await compileContracts()), random);
  }

  static async create(chainId: number, random: Random): Promise<Subject> {
    const subject = await Subject.launch(chainId, random);
    onTestFinished(() => subject.local.stop());
    return subject;
  }

  async expectSameAnswers(databaseUrl: string, schema: string, blocksBack: readonly number[] = []): Promise<void> {
    const { questions } = this;
    expect(await this.compareIndex(databaseUrl, schema, { questions, blocksBack })).toEqual([]);
  }

  async expectSameAnswersOverHttp(apiUrl: string, key?: string, block?: bigint): Promise<void> {
    const { questions } = this;
    expect(await this.compareHttp(apiUrl, { questions, ...(key && { key }), ...(block && { block }) })).toEqual([]);
  }

  /** Compares what the explorer shows: lists, history up to the newest block and to some before it, and explanations. */
  async expectSameInExplorer(apiUrl: string, blocksBack: readonly number[] = []): Promise<void> {
    const { chainId, client } = this.local;
    const newest = await client.getBlockNumber();
    const answers = await this.askRegistries(newest, this.questions);
    // A part of the questions each time, and every one in the end.
    const part = this.#explained++ % PARTS;
    const asked = this.questions.filter((_, index) => index % PARTS === part);
    await expectExplained(apiUrl, chainId, newest, answers, asked);
    this.answersOfExplorer += asked.length;

    for (const { address } of this.world.wallets) {
      const { lists, listsAt } = await readExplorer(apiUrl, chainId, address, newest);
      expect(differences(lists, pick(answers, lists), "explorer")).toEqual([]);
      for (const back of [0, ...blocksBack]) {
        const past = newest - BigInt(back);
        const folded = listsAt(past);
        const expected = pick(await this.askRegistries(past, this.questions), folded);
        expect(differences(folded, expected, `history up to block ${past}`)).toEqual([]);
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
