import { expect, onTestFinished } from "vitest";
import { compileContracts } from "../../local/compile-contracts.ts";
import { listQuestions, type WorldQuestion } from "./answers.ts";
import type { Queries } from "./index-state.ts";
import type { Random } from "./random.ts";
import { RandomChain } from "./random-chain.ts";
import { launchChain } from "./setup.ts";
import { createWorld } from "./world.ts";

/** A random chain with comparisons that fail the test. */
export class ComparedChain extends RandomChain {
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
    options: { block?: bigint; blocksBack?: readonly number[] } = {},
  ): Promise<void> {
    const { questions } = this;
    expect(await this.compareHttp(apiUrl, { questions, ...options, ...(key && { key }) })).toEqual([]);
  }

  async expectSameWallets(apiUrl: string, database: Queries, blocksBack: readonly number[] = []): Promise<void> {
    const { questions } = this;
    expect(await this.compareWallets(apiUrl, database, { questions, blocksBack })).toEqual([]);
  }

  async expectSameAnswersInSql(databaseUrl: string, blocksBack: readonly number[] = []): Promise<void> {
    const { questions } = this;
    expect(await this.compareSql(databaseUrl, { questions, blocksBack })).toEqual([]);
  }

  async expectSameDigests(database: Queries, blocksBack: readonly number[] = []): Promise<void> {
    expect(await this.compareDigests(database, blocksBack)).toEqual([]);
  }
}
