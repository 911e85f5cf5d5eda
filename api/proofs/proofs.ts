import { eq, sql } from "drizzle-orm";
import type { Logger } from "pino";
import type { Address, Hex } from "viem";
import type { Proof } from "../../client/src/proof.ts";
import type { Question } from "../../client/src/questions.ts";
import { isZksync } from "../../client/src/registries.ts";
import { redactError } from "../../indexer/rpc/redact.ts";
import { takes } from "../../registry/checks.ts";
import { networks, type RegistryVersion } from "../../registry/networks.ts";
import type { AskedBlock } from "../contract/parameters.ts";
import { aliasColumns } from "../database/columns.ts";
import type { Database } from "../database/database.ts";
import { withDeadline } from "../database/deadline.ts";
import type { Freshness } from "../database/freshness.ts";
import { memoize } from "../database/memoize.ts";
import { overloaded } from "../database/problems.ts";
import { compileStatement } from "../database/statement.ts";
import { indexTables } from "../database/tables.ts";
import type { CheckQuestion, DelegationChecks } from "../delegations/check-delegation.ts";
import { Turns } from "../limits/turns.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { INDEX_RETRY_SECONDS, notIndexed, Problem } from "../problem.ts";
import { describeChain, type Shards } from "../shards/shards.ts";
import { reportContradiction } from "./report-contradiction.ts";
import type { KnownBlock } from "./state-reader.ts";

/** A proof counts as this many requests: a node answers two to five for it. */
export const PROOF_COST = 10;
/** Maximum time for the nodes of a network to prove answers. */
const TIMEOUT_MS = 8_000;
/** Networks that are asked for proofs at a time, for all callers and for one request. */
const PLACES = 16;
const MAX_OF_REQUEST = 4;

type Options = {
  database: Database;
  /** Takes what the indexer is to compare. */
  primary: Database;
  shards: Shards;
  checks: DelegationChecks;
  /** URLs of nodes by chain id. */
  rpcUrls: ReadonlyMap<number, readonly string[]>;
  outcomes: Metrics["proofs"];
  log: Logger;
};

export type ProvenAnswer = { proof: Proof; freshness: Freshness; block: string };

/** An answer of the index, and its proof. */
type Compared = ProvenAnswer & { question: CheckQuestion; answer: string; isSame: boolean };
type Outcome = readonly [CheckQuestion, ProvenAnswer | Problem];

/** Proves answers to checks with the state of their block, from nodes that only proofs ask. */
export class Proofs {
  readonly #options: Options;
  readonly #newestBlock: (schema: string) => ReturnType<typeof newestBlockStatement>;
  readonly #turns = new Turns({
    places: PLACES,
    maxWaiting: 64,
    maxWaitMs: 2_000,
    refuse: () => overloaded("Too many proofs are being made. Try again in a moment."),
  });
  #modules: Promise<Modules> | undefined;
  /** Networks whose newest headers do not hash to their blocks' hashes, or whose accounts are not Ethereum's. */
  readonly #unprovable = new Set<number>();

  constructor(options: Options) {
    this.#options = options;
    this.#newestBlock = memoize(
      (schema) => newestBlockStatement(options.database, schema),
      (schema) => schema,
    );
  }

  /** Tells why no answer about a network can have a proof; null if it can. */
  findObstacle(chainId: number): string | null {
    if (isZksync(chainId)) return "its state is no Merkle-Patricia trie";
    if (!this.#options.rpcUrls.has(chainId)) return "the operator has set no node for proofs of it";
    if (this.#unprovable.has(chainId)) return UNKNOWN_FORM;
    return null;
  }

  requireProvable(chainId: number): void {
    const obstacle = this.findObstacle(chainId);
    // A network's form of headers may change, or a node be replaced: those are tried again.
    if (obstacle && !this.#unprovable.has(chainId)) throw unprovable(chainId, obstacle);
  }

  /**
   * Proves the answers to checks, those of a network all at one block: its newest one, or a past one. Each caller has
   * turns.
   */
  async prove(
    caller: string,
    questions: readonly CheckQuestion[],
    asked: AskedBlock,
  ): Promise<Map<CheckQuestion, ProvenAnswer | Problem>> {
    const waiting = [...groupBy(questions, ({ chainId }) => chainId)];
    const places = Math.min(waiting.length, MAX_OF_REQUEST);
    const outcomes: Outcome[] = [];
    const proveNext = async (): Promise<void> => {
      for (let next = waiting.shift(); next; next = waiting.shift()) {
        const [chainId, ofChain] = next;
        const proving = this.#proveChain(chainId, ofChain, asked).catch((error: unknown) => {
          if (!(error instanceof Problem) || error.problem === "database-unavailable") throw error;
          return ofChain.map((question): Outcome => [question, error]);
        });
        outcomes.push(...(await proving));
      }
    };
    const release = await this.#turns.take(caller, places, MAX_OF_REQUEST);
    try {
      await Promise.all(Array.from({ length: places }, proveNext));
      return new Map(outcomes);
    } finally {
      release();
    }
  }

  async #proveChain(chainId: number, questions: readonly CheckQuestion[], asked: AskedBlock): Promise<Outcome[]> {
    this.requireProvable(chainId);
    const first = await this.#compare(chainId, questions, asked);
    // A reorg may have changed the index between its answers and their block: only a second difference is one.
    const isAgain = first.some((one) => "isSame" in one && !one.isSame);
    const compared = isAgain ? await this.#compare(chainId, questions, asked) : first;
    return compared.map((one): Outcome => {
      if (!("isSame" in one)) return one;
      this.#options.outcomes[one.isSame ? "proven" : "differs"]++;
      return [one.question, one.isSame ? one : this.#report(one)];
    });
  }

  async #compare(
    chainId: number,
    questions: readonly CheckQuestion[],
    asked: AskedBlock,
  ): Promise<(Compared | Outcome)[]> {
    const { shards, checks } = this.#options;
    const versions = new Set(questions.map(({ check }) => check.version));
    const [schema] = [...versions].map((version) => shards.findSchema(version, chainId));
    if (schema === undefined) return [];
    const past = shards.findBlock(chainId, asked);
    const known = await this.#readNewestBlock(schema, chainId);
    // Without a block of its own, the newest one: the index's answer and the proof must be of the same block.
    const block = past ?? known?.number;
    const answer = async (question: CheckQuestion) => {
      const { value, freshness: read } = await checks.answer(schema, { ...question, block });
      const freshness = shards.requireFresh(chainId, read, { ...asked, block });
      if (asked.minBlock !== undefined) shards.requireFresh(chainId, read, { minBlock: asked.minBlock });
      return { answer: value, freshness };
    };
    const answers = await Promise.all(questions.map(answer));
    // What is served without a block comes from other tables than the answer at one.
    const served = past === undefined ? await Promise.all(questions.map((one) => checks.answer(schema, one))) : [];
    // The chain's index appeared in between.
    if (!known || block === undefined) throw notIndexed(`${describeChain(chainId)} has no indexed block yet.`);
    const proofs = await this.#askNodes(chainId, questions, BigInt(block), {
      number: BigInt(known.number),
      hash: known.hash,
    });
    return questions.map((question, place) => {
      const [answered, proof] = [answers[place], proofs.get(question)];
      if (!answered || !proof) throw new Error(`A check of chain ${chainId} has no proof.`);
      if (proof instanceof Problem) return [question, proof];
      const result = String(proof.result);
      const now = served[place];
      const wrong = now?.freshness?.indexedBlock === block && now.value !== result ? now.value : answered.answer;
      return { question, proof, block, ...answered, answer: wrong, isSame: wrong === result };
    });
  }

  #report({ question, proof, block, answer }: Compared): Problem {
    const { chainId, check } = question;
    const { log, primary } = this.#options;
    const where = { chainId, block, registry: check.version, check: check.name };
    log.error({ ...where, answer, proven: proof.result }, "The index differs from a proof");
    reportContradiction(primary, { chainId, wallet: question.vault, block }).catch((error) =>
      log.warn({ err: error, chainId }, "The indexer does not get to know which wallet differs from a proof"),
    );
    return new Problem(
      "index-differs",
      `The index of ${describeChain(chainId)} differs from the proven state of the registry at block ${block}, so there is no answer.`,
      { headers: { "Retry-After": String(INDEX_RETRY_SECONDS) } },
    );
  }

  async #readNewestBlock(schema: string, chainId: number) {
    const [row] = await this.#options.database.read("checks", this.#newestBlock(schema), { chainId });
    return row;
  }

  async #askNodes(
    chainId: number,
    questions: readonly CheckQuestion[],
    number: bigint,
    known: KnownBlock,
  ): Promise<Map<CheckQuestion, Proof | Problem>> {
    const { log, rpcUrls, outcomes } = this.#options;
    this.#modules ??= loadModules(rpcUrls);
    const { state, proveChecks, NoRegistryError, UnknownFormError } = await this.#modules;
    const prove = async () => {
      const block = await state.readBlock(chainId, number, known);
      const proveRegistry = async ([version, same]: [RegistryVersion, CheckQuestion[]]) => {
        const asked = same.map(toClientQuestion);
        const proofs = await proveChecks(state, asked, addressOf(version, chainId), block).catch((error) => {
          if (!(error instanceof NoRegistryError)) throw error;
          return same.map(() => unprovable(chainId, `block ${number} is older than the registry ${version}`));
        });
        return same.map((question, place) => [question, proofs[place] as Proof | Problem] as const);
      };
      const byRegistry = groupBy(questions, ({ check }) => check.version);
      return new Map((await Promise.all([...byRegistry].map(proveRegistry))).flat());
    };
    try {
      const proofs = await withDeadline(TIMEOUT_MS, prove(), () => new Error("The nodes take too long."));
      this.#unprovable.delete(chainId);
      return proofs;
    } catch (error) {
      outcomes.unavailable += questions.length;
      log.warn({ chainId, block: String(number), err: redactError(error) }, "An answer cannot be proven");
      if (error instanceof UnknownFormError) {
        // An older block may have had another form than the newest one.
        if (number === known.number) this.#unprovable.add(chainId);
        throw unprovable(chainId, `${UNKNOWN_FORM}, as of block ${number}`);
      }
      throw new Problem(
        "proof-unavailable",
        `No node of ${describeChain(chainId)} proves the state of block ${number}: it does not respond in time, is behind the index, or lacks the state of that block.`,
        { status: 503, headers: { "Retry-After": String(INDEX_RETRY_SECONDS) } },
      );
    }
  }
}

/** viem takes long to load. */
const loadModules = async (rpcUrls: Options["rpcUrls"]) => {
  const { StateReader } = await import("./state-reader.ts");
  const { proveChecks } = await import("./prove-checks.ts");
  const { NoRegistryError, UnknownFormError } = await import("../../client/src/proven-state.ts");
  return { state: new StateReader(rpcUrls), proveChecks, NoRegistryError, UnknownFormError };
};

type Modules = Awaited<ReturnType<typeof loadModules>>;

const addressOf = (version: RegistryVersion, chainId: number): Address => {
  const registry = networks.get(chainId)?.[version]?.address;
  if (!registry) throw new Error(`Chain ${chainId} has no ${version} registry.`);
  return registry;
};

const groupBy = <Key, Value>(values: readonly Value[], keyOf: (value: Value) => Key): Map<Key, Value[]> => {
  const groups = new Map<Key, Value[]>();
  for (const value of values) groups.set(keyOf(value), [...(groups.get(keyOf(value)) ?? []), value]);
  return groups;
};

const UNKNOWN_FORM = "its headers or accounts have another form than Ethereum's";

const unprovable = (chainId: number, obstacle: string) =>
  new Problem("proof-unavailable", `There are no proofs for ${describeChain(chainId)}: ${obstacle}.`);

/** Reads the newest block of a chain's index. */
const newestBlockStatement = ({ db }: Database, schema: string) => {
  const { indexedBlock } = indexTables(schema);
  const columns = aliasColumns({ number: sql`${indexedBlock.number}::text`, hash: indexedBlock.hash });
  const query = db
    .select(columns)
    .from(indexedBlock)
    .where(eq(indexedBlock.chainId, sql.placeholder("chainId")));
  return compileStatement<{ number: string; hash: Hex }>(`${schema} newest block`, query);
};

/** The question as clients have it: only what its check takes. */
const toClientQuestion = ({ check, chainId, delegate, vault, contract, tokenId, rights }: CheckQuestion): Question => ({
  registry: check.version,
  check: check.name,
  chainId,
  delegate,
  vault,
  ...(takes(check, "contract") && { contract }),
  ...(takes(check, "tokenId") && { tokenId }),
  ...(takes(check, "rights") && { rights }),
});
