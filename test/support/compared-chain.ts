import { expect, onTestFinished } from "vitest";
import { compileContracts } from "../../local/compile-contracts.ts";
import { type Answers, findDifferences, listQuestions, type WorldQuestion } from "./answers.ts";
import type { Queries } from "./index-state.ts";
import type { Random } from "./random.ts";
import { RandomChain } from "./random-chain.ts";
import { launchChain } from "./setup.ts";
import { expectSameGrants, readWalletLists } from "./wallet-answers.ts";
import { createWorld } from "./world.ts";

/** Number of comparisons over which all questions about wallets are spread. */
const PARTS = 3;

const nameScope = ({ vault: _, delegate: __, ...scope }: WorldQuestion) => Object.values(scope).join();

/** Picks the answers to the same questions. */
const pick = (answers: Answers, like: Answers): Answers =>
  new Map([...answers].filter(([question]) => like.has(question)));

/** A random chain with comparisons that fail the test. */
export class ComparedChain extends RandomChain {
  #part = 0;
  /** Number of compared answers about wallets. */
  answersAboutWallets = 0;

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

  /** Compares vaults, delegates, lists and history of all wallets, at the newest block, some before it, and their times. */
  async expectSameWallets(apiUrl: string, database: Queries, blocksBack: readonly number[] = []): Promise<void> {
    const { chainId, client } = this.local;
    const newest = await client.getBlockNumber();
    const compare = async (block: bigint, at?: { block: bigint } | { timestamp: bigint }) => {
      const asked = { apiUrl, chainId, block, ...(at && { at }) };
      const answers = await this.askRegistries(block, this.questions);
      // A part of the questions each time, all of them over several calls.
      const part = this.#part++ % PARTS;
      const scopes = [...new Set(this.questions.map(nameScope))];
      const questions = this.questions.filter((question) => scopes.indexOf(nameScope(question)) % PARTS === part);
      const isComplete = this.questions.length === listQuestions(this.world).length;
      this.answersAboutWallets += await expectSameGrants(asked, answers, { questions, isComplete, database });
      for (const { address } of this.world.wallets) {
        const lists = await readWalletLists(asked, address);
        expect(findDifferences(lists, pick(answers, lists), `wallet ${address} at block ${block}`)).toEqual([]);
        this.answersAboutWallets += lists.size;
      }
    };
    await compare(newest);
    await compare(newest, { block: newest });
    for (const back of blocksBack) {
      const block = newest - BigInt(back);
      await compare(block, { block });
      const { timestamp } = await client.getBlock({ blockNumber: block });
      await compare(block, { timestamp });
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
