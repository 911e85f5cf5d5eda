import { parseEventLogs } from "viem";
import { expect } from "vitest";
import { registryV1Abi, registryV2Abi } from "../../registry/abi.ts";
import { compileContracts } from "../../sandbox/contracts.ts";
import { type Answers, answersOfContracts, answersOfState, differences } from "./answers.ts";
import { answersOfApi } from "./api-answers.ts";
import { expectExplained, readExplorer } from "./explorer-answers.ts";
import { readSnapshot, rebuildState } from "./index-state.ts";
import type { Random } from "./random.ts";
import { ReorgChain } from "./reorg-chain.ts";
import { createChain } from "./setup.ts";
import { answersOfSql } from "./sql-answers.ts";
import { createWorld, randomTransaction, type World } from "./world.ts";

/** In how many parts the explorer is asked why checks are so. */
const PARTS = 3;

/** Those answers that others are to be compared with. */
const pick = (answers: Answers, like: Answers): Answers =>
  new Map([...answers].filter(([question]) => like.has(question)));

/** A chain whose registries are written to at random, and asked. */
export class Subject {
  readonly chain: ReorgChain;
  readonly world: World;
  readonly #random: Random;
  /** What the registries have answered, by the hash of the block. */
  readonly #asked = new Map<string, Answers>();
  #explained = 0;
  /** How many registry operations have been mined. */
  operations = 0;
  /** How many answers have been compared. */
  answers = 0;
  /** How many of them came from the API, over HTTP. */
  answersOverHttp = 0;
  /** How many the explorer told. */
  answersOfExplorer = 0;
  /** How many came from the schema analytics. */
  answersInSql = 0;

  private constructor(chain: ReorgChain, world: World, random: Random) {
    this.chain = chain;
    this.world = world;
    this.#random = random;
  }

  static async create(chainId: number, random: Random): Promise<Subject> {
    const local = await createChain(chainId);
    return new Subject(new ReorgChain(local), await createWorld(local, await compileContracts()), random);
  }

  get local() {
    return this.chain.local;
  }

  async mineRandomBlock(): Promise<void> {
    const transactions = Array.from({ length: this.#random.integer(0, 5) }, () =>
      randomTransaction(this.#random, this.world),
    );
    await this.chain.mine(transactions);
    for (const { operations } of transactions) this.operations += operations;
  }

  async mineRandomBlocks(count: number): Promise<void> {
    for (let block = 0; block < count; block++) await this.mineRandomBlock();
  }

  async mineEmptyBlocks(count: number): Promise<void> {
    for (let block = 0; block < count; block++) await this.chain.mine();
  }

  /** The names of the registries' events in the newest blocks. */
  async newestEvents(blocks: number): Promise<string[]> {
    const head = await this.local.client.getBlockNumber();
    const { v1, v2 } = this.world;
    const logs = await this.local.client.getLogs({ address: [v1, v2], fromBlock: head - BigInt(blocks - 1) });
    return parseEventLogs({ abi: [...registryV1Abi, ...registryV2Abi], logs }).map(({ eventName }) => eventName);
  }

  /**
   * Asks the registries everything there is to ask at the newest indexed block, and some blocks
   * before it: the index has to say the same, its log too.
   */
  async expectSameAnswers(databaseUrl: string, schema: string, blocksBack: readonly number[] = []): Promise<void> {
    const snapshot = await readSnapshot(databaseUrl, schema, this.local.chainId);
    if (!snapshot) throw new Error(`The index says nothing of chain ${this.local.chainId}.`);
    const { block, state, log } = snapshot;

    expect(block.hash).toBe((await this.local.client.getBlock({ blockNumber: block.number })).hash);
    expect(differences(answersOfState(state, this.world), await this.#askRegistries(block.number))).toEqual([]);
    for (const back of [0, ...blocksBack]) {
      const past = block.number - BigInt(back);
      const rebuilt = rebuildState(log, past);
      expect(differences(answersOfState(rebuilt, this.world), await this.#askRegistries(past))).toEqual([]);
    }
  }

  /** The same over HTTP: the API has to say what the registries say at the newest block, or at an older one. */
  async expectSameAnswersOverHttp(apiUrl: string, key?: string, block?: bigint): Promise<void> {
    const at = block ?? (await this.local.client.getBlockNumber());
    const answers = await answersOfApi(apiUrl, this.local.chainId, this.world, at, key);
    this.answersOverHttp += answers.size;
    expect(differences(answers, await this.#askRegistries(at))).toEqual([]);
  }

  /** The same of what the explorer tells: lists, history up to the newest block and to some before it, and why checks are so. */
  async expectSameInExplorer(apiUrl: string, blocksBack: readonly number[] = []): Promise<void> {
    const { chainId, client } = this.local;
    const newest = await client.getBlockNumber();
    const answers = await this.#askRegistries(newest);
    // A part of the questions each time, and every one in the end.
    const part = this.#explained++ % PARTS;
    const isAsked = (index: number) => index % PARTS === part;
    this.answersOfExplorer += await expectExplained(apiUrl, chainId, this.world, newest, answers, isAsked);

    for (const { address } of this.world.wallets) {
      const { lists, listsAt } = await readExplorer(apiUrl, chainId, address, newest);
      expect(differences(lists, pick(answers, lists))).toEqual([]);
      for (const back of [0, ...blocksBack]) {
        const past = newest - BigInt(back);
        const folded = listsAt(past);
        expect(differences(folded, pick(await this.#askRegistries(past), folded))).toEqual([]);
        this.answersOfExplorer += folded.size;
      }
    }
  }

  /** The same in SQL: at the newest indexed block from what is active, and as of it and some before it from the log. */
  async expectSameAnswersInSql(databaseUrl: string, blocksBack: readonly number[] = []): Promise<void> {
    const ask = async (atBlock: bigint | null) => {
      const { block, answers } = await answersOfSql(databaseUrl, this.local.chainId, this.world, atBlock);
      this.answersInSql += answers.size;
      expect(differences(answers, await this.#askRegistries(block))).toEqual([]);
      return block;
    };
    const newest = await ask(null);
    for (const back of [0, ...blocksBack]) await ask(newest - BigInt(back));
  }

  async #askRegistries(block: bigint): Promise<Answers> {
    const { hash } = await this.local.client.getBlock({ blockNumber: block });
    const answers = this.#asked.get(hash) ?? (await answersOfContracts(this.local.url, this.world, block));
    this.#asked.set(hash, answers);
    this.answers += answers.size;
    return answers;
  }
}
