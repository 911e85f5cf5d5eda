import { expect } from "vitest";
import { compileContracts } from "../../sandbox/contracts.ts";
import { type Answers, differences } from "./answers.ts";
import { expectExplained, readExplorer } from "./explorer-answers.ts";
import type { Queries } from "./index-state.ts";
import type { Random } from "./random.ts";
import { RandomChain } from "./random-chain.ts";
import { createChain } from "./setup.ts";
import { createWorld } from "./world.ts";

/** In how many parts the explorer is asked why checks are so. */
const PARTS = 3;

/** Those answers that others are to be compared with. */
const pick = (answers: Answers, like: Answers): Answers =>
  new Map([...answers].filter(([question]) => like.has(question)));

/** A random chain until the test is over, with what is expected of it. */
export class Subject extends RandomChain {
  #explained = 0;
  /** How many answers the explorer told. */
  answersOfExplorer = 0;

  static async create(chainId: number, random: Random): Promise<Subject> {
    const local = await createChain(chainId);
    return new Subject(local, await createWorld(local, await compileContracts()), random);
  }

  async expectSameAnswers(databaseUrl: string, schema: string, blocksBack: readonly number[] = []): Promise<void> {
    expect(await this.compareIndex(databaseUrl, schema, { blocksBack })).toEqual([]);
  }

  async expectSameAnswersOverHttp(apiUrl: string, key?: string, block?: bigint): Promise<void> {
    expect(await this.compareHttp(apiUrl, { ...(key && { key }), ...(block && { block }) })).toEqual([]);
  }

  /** The same of what the explorer tells: lists, history up to the newest block and to some before it, and why checks are so. */
  async expectSameInExplorer(apiUrl: string, blocksBack: readonly number[] = []): Promise<void> {
    const { chainId, client } = this.local;
    const newest = await client.getBlockNumber();
    const answers = await this.askRegistries(newest);
    // A part of the questions each time, and every one in the end.
    const part = this.#explained++ % PARTS;
    const isAsked = (index: number) => index % PARTS === part;
    this.answersOfExplorer += await expectExplained(apiUrl, chainId, this.world, newest, answers, isAsked);

    for (const { address } of this.world.wallets) {
      const { lists, listsAt } = await readExplorer(apiUrl, chainId, address, newest);
      expect(differences(lists, pick(answers, lists), "explorer")).toEqual([]);
      for (const back of [0, ...blocksBack]) {
        const past = newest - BigInt(back);
        const folded = listsAt(past);
        expect(
          differences(folded, pick(await this.askRegistries(past), folded), `history up to block ${past}`),
        ).toEqual([]);
        this.answersOfExplorer += folded.size;
      }
    }
  }

  async expectSameAnswersInSql(databaseUrl: string, blocksBack: readonly number[] = []): Promise<void> {
    expect(await this.compareSql(databaseUrl, { blocksBack })).toEqual([]);
  }

  async expectSameDigests(database: Queries, blocksBack: readonly number[] = []): Promise<void> {
    expect(await this.compareDigests(database, blocksBack)).toEqual([]);
  }
}
