import { parseEventLogs } from "viem";
import { expect, onTestFinished } from "vitest";
import type { LocalChain } from "../../local/chain.ts";
import { compileContracts } from "../../local/compile-contracts.ts";
import { registryV1Abi, registryV2Abi } from "../../registry/abi.ts";
import {
  type Answers,
  deriveAnswers,
  findDifferences,
  formatQuestion,
  listQuestions,
  readContractAnswers,
  readContractState,
  type WorldQuestion,
} from "./answers.ts";
import { compareGrants, compareWallet, readApiAnswers, readBulkAnswers } from "./api-answers.ts";
import {
  BlockMismatchError,
  computeStateDigest,
  type Queries,
  REGISTRIES,
  readDigest,
  readIndexSnapshot,
  rebuildState,
  type State,
} from "./index-state.ts";
import type { Random } from "./random.ts";
import { launchChain, ReorgChain } from "./setup.ts";
import { readSqlAnswers } from "./sql-answers.ts";
import { createWorld, drawTransaction, type World } from "./world.ts";

/** Number of comparisons over which all questions about wallets are spread. */
const PARTS = 3;

/** Checks to compare, and distances from the newest block at which to compare them too. */
export type CompareOptions = { questions?: readonly WorldQuestion[]; blocksBack?: readonly number[] };

/**
 * A chain with random registry operations. Its methods compare the service's answers with the registries' own, and
 * return a line for each difference.
 */
export class RandomChain {
  readonly chain: ReorgChain;
  readonly world: World;
  readonly #random: Random;
  /** The registries' answers, by block hash. */
  readonly #asked = new Map<string, { checks: Answers; lists: Answers | null }>();
  #part = 0;
  /** Number of mined registry operations. */
  operations = 0;
  /** Number of compared answers, from all sources. */
  answers = 0;
  /** Number of answers from the API. */
  answersOverHttp = 0;
  /** Number of compared lists about wallets. */
  answersAboutWallets = 0;
  /** Number of answers from the schema analytics. */
  answersInSql = 0;
  /** Number of compared state digests. */
  digests = 0;

  constructor(local: LocalChain, world: World, random: Random) {
    this.chain = new ReorgChain(local);
    this.world = world;
    this.#random = random;
  }

  get local() {
    return this.chain.local;
  }

  async mineRandomBlock(): Promise<void> {
    const transactions = Array.from({ length: this.#random.integer(0, 5) }, () =>
      drawTransaction(this.#random, this.world),
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

  /** Mines empty blocks up to a number, in one request. revertBlocks() cannot revert them. */
  async mineUpTo(number: bigint): Promise<void> {
    const { client, url } = this.local;
    const missing = Number(number - (await client.getBlockNumber()));
    // One call for each block, as hardhat_mine leaves out the parents' hashes, in a single batch request.
    const calls = Array.from({ length: missing }, (_, id) => ({ jsonrpc: "2.0", id, method: "evm_mine", params: [] }));
    await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(calls) });
  }

  /** Reads the names of the registries' events in the newest blocks. */
  async readNewestEvents(blocks: number): Promise<string[]> {
    const head = await this.local.client.getBlockNumber();
    const { v1, v2 } = this.world;
    const logs = await this.local.client.getLogs({ address: [v1, v2], fromBlock: head - BigInt(blocks - 1) });
    return parseEventLogs({ abi: [...registryV1Abi, ...registryV2Abi], logs }).map(({ eventName }) => eventName);
  }

  /** Reads the registries' delegations at a block, by default the newest. */
  async readState(block?: bigint): Promise<State> {
    return readContractState(this.local.url, this.world, block ?? (await this.local.client.getBlockNumber()));
  }

  /**
   * Compares the index with the registries at its newest block, and its log also at some blocks
   * before it.
   */
  async compareIndex(
    databaseUrl: string,
    schema: string,
    { questions = listQuestions(this.world), blocksBack = [] }: CompareOptions = {},
  ): Promise<string[]> {
    const { client, chainId } = this.local;
    const snapshot = await readIndexSnapshot(databaseUrl, schema, chainId);
    if (!snapshot) throw new BlockMismatchError(`The index names no block of chain ${chainId}.`);
    const { block, state, log } = snapshot;
    const { hash } = await client.getBlock({ blockNumber: block.number });
    if (block.hash !== hash) throw new BlockMismatchError(`Block ${block.number} is ${hash}, not ${block.hash}.`);

    const compare = async (indexed: State, number: bigint) =>
      findDifferences(
        deriveAnswers(indexed, this.world, questions),
        await this.askRegistries(number, questions),
        `index of chain ${chainId} at block ${number}`,
      );
    const found = await compare(state, block.number);
    for (const back of [0, ...blocksBack]) {
      const past = block.number - BigInt(back);
      found.push(...(await compare(rebuildState(log, past), past)));
    }
    return found;
  }

  /** Compares the API's answers over HTTP, at the newest block or at a given one, and at some before it. */
  async compareHttp(
    apiUrl: string,
    options: { key?: string; block?: bigint } & CompareOptions = {},
  ): Promise<string[]> {
    const { client, chainId } = this.local;
    const { key, block, questions = listQuestions(this.world), blocksBack = [] } = options;
    const newest = block ?? (await client.getBlockNumber());
    const compare = async (past?: bigint) => {
      const asked = { apiUrl, chainId, world: this.world, questions, newest, past };
      const expected = await this.askRegistries(past ?? newest, questions);
      const where = `chain ${chainId} at block ${past ?? newest}`;
      const answers = await readApiAnswers({ ...asked, key });
      this.answersOverHttp += answers.size;
      const found = findDifferences(answers, expected, `API, ${where}`);
      if (!key) return found;
      const together = await readBulkAnswers({ ...asked, key });
      this.answersOverHttp += together.size;
      const checks = new Map([...expected].filter(([question]) => together.has(question)));
      return [...found, ...findDifferences(together, checks, `Many checks, ${where}`)];
    };
    const found = await compare();
    for (const back of blocksBack) found.push(...(await compare(newest - BigInt(back))));
    return found;
  }

  /** Compares vaults, delegates, lists and history of all wallets, at the newest block, some before it, and their times. */
  async compareWallets(
    apiUrl: string,
    database: Queries,
    { questions = listQuestions(this.world), blocksBack = [] }: CompareOptions = {},
  ): Promise<string[]> {
    const { chainId, client } = this.local;
    const scopes = [...new Set(questions.map(nameScope))];
    const isComplete = questions.length === listQuestions(this.world).length;
    const found: string[] = [];
    const compare = async (block: bigint, at?: { block: bigint } | { timestamp: bigint }) => {
      const asked = { apiUrl, chainId, block, ...(at && { at }) };
      const answers = await this.askRegistries(block, questions);
      // A part of the questions each time, all of them over several calls.
      const part = this.#part++ % PARTS;
      const asking = questions.filter((question) => scopes.indexOf(nameScope(question)) % PARTS === part);
      const compared = [await compareGrants(asked, answers, { questions: asking, isComplete, database })];
      for (const { address } of this.world.wallets) compared.push(await compareWallet(asked, address, answers));
      for (const { lists, differences } of compared) {
        this.answersAboutWallets += lists;
        found.push(...differences);
      }
    };
    const newest = await client.getBlockNumber();
    await compare(newest);
    await compare(newest, { block: newest });
    for (const back of blocksBack) {
      const { number: block, timestamp } = await client.getBlock({ blockNumber: newest - BigInt(back) });
      await compare(block, { block });
      await compare(block, { timestamp });
    }
    return found;
  }

  /** Compares answers in SQL: from active delegations at the newest block, and from the log at it and some before it. */
  async compareSql(
    databaseUrl: string,
    { questions = listQuestions(this.world), blocksBack = [] }: CompareOptions = {},
  ): Promise<string[]> {
    const { chainId } = this.local;
    const compare = async (atBlock: bigint | null) => {
      const { block, answers } = await readSqlAnswers({ databaseUrl, chainId, world: this.world, atBlock, questions });
      this.answersInSql += answers.size;
      const expected = await this.askRegistries(block, questions);
      return { block, found: findDifferences(answers, expected, `SQL, chain ${chainId} at block ${block}`) };
    };
    const { block: newest, found } = await compare(null);
    for (const back of [0, ...blocksBack]) found.push(...(await compare(newest - BigInt(back))).found);
    return found;
  }

  /** Compares state digests in SQL, at the newest block and some before it. */
  async compareDigests(database: Queries, blocksBack: readonly number[] = []): Promise<string[]> {
    const head = await this.local.client.getBlockNumber();
    const found: string[] = [];
    for (const block of [null, ...[0, ...blocksBack].map((back) => head - BigInt(back))]) {
      for (const registry of REGISTRIES) {
        const digest = await readDigest(database, this.local.chainId, registry, block);
        found.push(...(await this.#compareDigest("SQL", registry, block ?? head, digest)));
      }
    }
    return found;
  }

  /** Reads the state digests that the API publishes, with their block. Null until there are any. */
  async readPublishedDigests(apiUrl: string): Promise<PublishedDigests | null> {
    const status = (await (await fetch(`${apiUrl}/status`)).json()) as Status;
    return status.chains.find(({ chainId }) => chainId === this.local.chainId)?.stateDigest ?? null;
  }

  /** Compares the published digests with the registries at their block. Null until there are any. */
  async comparePublishedDigests(apiUrl: string): Promise<string[] | null> {
    const published = await this.readPublishedDigests(apiUrl);
    if (!published) return null;
    const compared = REGISTRIES.map((registry) =>
      this.#compareDigest("/status", registry, BigInt(published.block), published[registry]),
    );
    return (await Promise.all(compared)).flat();
  }

  async #compareDigest(who: string, registry: (typeof REGISTRIES)[number], block: bigint, digest: string | null) {
    const { chainId } = this.local;
    this.digests++;
    const expected = computeStateDigest(chainId, registry, await this.readState(block));
    if (digest === expected) return [];
    return [`${who}, chain ${chainId} at block ${block}: digest of ${registry} ${digest}, but it is ${expected}`];
  }

  /** Reads the registries' answers at a block, and caches them. */
  async askRegistries(
    block: bigint,
    questions: readonly WorldQuestion[] = listQuestions(this.world),
  ): Promise<Answers> {
    const { hash } = await this.local.client.getBlock({ blockNumber: block });
    const known = this.#asked.get(hash) ?? { checks: new Map(), lists: null };
    this.#asked.set(hash, known);
    const open = questions.filter((question) => !known.checks.has(formatQuestion(question)));
    if (open.length > 0 || known.lists === null) {
      const answers = await readContractAnswers(this.local.url, this.world, block, open);
      for (const question of open.map(formatQuestion)) {
        known.checks.set(question, answers.get(question) ?? "");
        answers.delete(question);
      }
      known.lists = answers;
    }
    const checks = questions
      .map(formatQuestion)
      .map((question) => [question, known.checks.get(question) ?? ""] as const);
    const answers = new Map([...checks, ...known.lists]);
    this.answers += answers.size;
    return answers;
  }
}

const nameScope = ({ vault: _, delegate: __, ...scope }: WorldQuestion) => Object.values(scope).join();

type PublishedDigests = { block: number; v1: string | null; v2: string | null };
type Status = { chains: { chainId: number; stateDigest: PublishedDigests | null }[] };

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
