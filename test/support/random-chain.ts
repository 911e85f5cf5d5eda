import { parseEventLogs } from "viem";
import { registryV1Abi, registryV2Abi } from "../../registry/abi.ts";
import type { LocalChain } from "../../sandbox/chain.ts";
import {
  type Answers,
  answersOfContracts,
  answersOfState,
  differences,
  type Question,
  questionsOf,
  stateOfContracts,
  textOf,
} from "./answers.ts";
import { answersOfApi, OtherBlockError } from "./api-answers.ts";
import { type Queries, readSnapshot, rebuildState, type State } from "./index-state.ts";
import type { Random } from "./random.ts";
import { digestOfState, REGISTRIES, readDigest } from "./registry-digest.ts";
import { ReorgChain } from "./reorg-chain.ts";
import { answersOfSql } from "./sql-answers.ts";
import { randomTransaction, type World } from "./world.ts";

/** Which checks to ask, and at which blocks before the newest one too. */
export type Extent = { questions?: readonly Question[]; blocksBack?: readonly number[] };

/**
 * A chain whose registries are written to at random, and asked. What is compared with them is told where it differs,
 * a line for each difference.
 */
export class RandomChain {
  readonly chain: ReorgChain;
  readonly world: World;
  readonly #random: Random;
  /** What the registries have answered, by the hash of the block. */
  readonly #asked = new Map<string, { checks: Answers; lists: Answers | null }>();
  /** How many registry operations have been mined. */
  operations = 0;
  /** How many answers have been compared. */
  answers = 0;
  /** How many of them came from the API, over HTTP. */
  answersOverHttp = 0;
  /** How many came from the schema analytics. */
  answersInSql = 0;
  /** How many state digests were compared. */
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

  /** Mines empty blocks up to a number, quickly: they cannot be taken back. */
  async mineUpTo(number: bigint): Promise<void> {
    const { client, url } = this.local;
    const missing = Number(number - (await client.getBlockNumber()));
    // One call each: hardhat_mine leaves out the parents' hashes. But all of them in one request.
    const calls = Array.from({ length: missing }, (_, id) => ({ jsonrpc: "2.0", id, method: "evm_mine", params: [] }));
    await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(calls) });
  }

  /** The names of the registries' events in the newest blocks. */
  async newestEvents(blocks: number): Promise<string[]> {
    const head = await this.local.client.getBlockNumber();
    const { v1, v2 } = this.world;
    const logs = await this.local.client.getLogs({ address: [v1, v2], fromBlock: head - BigInt(blocks - 1) });
    return parseEventLogs({ abi: [...registryV1Abi, ...registryV2Abi], logs }).map(({ eventName }) => eventName);
  }

  /** What the registries list as delegated, at a block or at the newest one. */
  async readState(block?: bigint): Promise<State> {
    return stateOfContracts(this.local.url, this.world, block ?? (await this.local.client.getBlockNumber()));
  }

  /**
   * Asks the registries everything there is to ask at the newest indexed block, and some blocks
   * before it: the index has to say the same, its log too.
   */
  async compareIndex(
    databaseUrl: string,
    schema: string,
    { questions = questionsOf(this.world), blocksBack = [] }: Extent = {},
  ): Promise<string[]> {
    const { client, chainId } = this.local;
    const snapshot = await readSnapshot(databaseUrl, schema, chainId);
    if (!snapshot) throw new OtherBlockError(`The index says nothing of chain ${chainId}.`);
    const { block, state, log } = snapshot;
    const { hash } = await client.getBlock({ blockNumber: block.number });
    if (block.hash !== hash) throw new OtherBlockError(`Block ${block.number} is ${hash}, not ${block.hash}.`);

    const compare = async (indexed: State, number: bigint) =>
      differences(
        answersOfState(indexed, this.world, questions),
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

  /** The same over HTTP: the API has to say what the registries say at the newest block, or at an older one. */
  async compareHttp(
    apiUrl: string,
    { key, block, questions = questionsOf(this.world) }: { key?: string; block?: bigint } & Extent = {},
  ): Promise<string[]> {
    const { client, chainId } = this.local;
    const at = block ?? (await client.getBlockNumber());
    const answers = await answersOfApi(apiUrl, chainId, this.world, at, { key, questions });
    this.answersOverHttp += answers.size;
    return differences(answers, await this.askRegistries(at, questions), `API, chain ${chainId} at block ${at}`);
  }

  /** The same in SQL: at the newest indexed block from what is active, and as of it and some before it from the log. */
  async compareSql(
    databaseUrl: string,
    { questions = questionsOf(this.world), blocksBack = [] }: Extent = {},
  ): Promise<string[]> {
    const { chainId } = this.local;
    const compare = async (atBlock: bigint | null) => {
      const { block, answers } = await answersOfSql(databaseUrl, chainId, this.world, atBlock, questions);
      this.answersInSql += answers.size;
      const expected = await this.askRegistries(block, questions);
      return { block, found: differences(answers, expected, `SQL, chain ${chainId} at block ${block}`) };
    };
    const { block: newest, found } = await compare(null);
    for (const back of [0, ...blocksBack]) found.push(...(await compare(newest - BigInt(back))).found);
    return found;
  }

  /** State digests in SQL, at the newest block and some before it. */
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

  /** The state digests that the API publishes, with their block: null until it has any. */
  async readToldDigests(apiUrl: string): Promise<ToldDigests | null> {
    const status = (await (await fetch(`${apiUrl}/status`)).json()) as Status;
    return status.chains.find(({ chainId }) => chainId === this.local.chainId)?.stateDigest ?? null;
  }

  /** Compares these digests with the registries at their block: null until there are any. */
  async compareToldDigests(apiUrl: string): Promise<string[] | null> {
    const told = await this.readToldDigests(apiUrl);
    if (!told) return null;
    const compared = REGISTRIES.map((registry) =>
      this.#compareDigest("/status", registry, BigInt(told.block), told[registry]),
    );
    return (await Promise.all(compared)).flat();
  }

  async #compareDigest(who: string, registry: (typeof REGISTRIES)[number], block: bigint, digest: string | null) {
    const { chainId } = this.local;
    this.digests++;
    const expected = digestOfState(chainId, registry, await this.readState(block));
    if (digest === expected) return [];
    return [`${who}, chain ${chainId} at block ${block}: digest of ${registry} ${digest}, but it is ${expected}`];
  }

  /** What the registries answer at a block. */
  async askRegistries(block: bigint, questions: readonly Question[] = questionsOf(this.world)): Promise<Answers> {
    const { hash } = await this.local.client.getBlock({ blockNumber: block });
    const known = this.#asked.get(hash) ?? { checks: new Map(), lists: null };
    this.#asked.set(hash, known);
    const open = questions.filter((question) => !known.checks.has(textOf(question)));
    if (open.length > 0 || known.lists === null) {
      const answers = await answersOfContracts(this.local.url, this.world, block, open);
      for (const question of open.map(textOf)) {
        known.checks.set(question, answers.get(question) ?? "");
        answers.delete(question);
      }
      known.lists = answers;
    }
    const checks = questions.map(textOf).map((question) => [question, known.checks.get(question) ?? ""] as const);
    const answers = new Map([...checks, ...known.lists]);
    this.answers += answers.size;
    return answers;
  }
}

type ToldDigests = { block: number; v1: string | null; v2: string | null };
type Status = { chains: { chainId: number; stateDigest: ToldDigests | null }[] };
