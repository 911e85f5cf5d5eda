import { eq, sql } from "drizzle-orm";
import type { Logger } from "pino";
import type { Hex } from "viem";
import type { Proof } from "../../client/src/proof.ts";
import type { Question } from "../../client/src/questions.ts";
import { isZksync } from "../../client/src/registries.ts";
import { redactError } from "../../indexer/rpc/redact.ts";
import { takes } from "../../registry/checks.ts";
import { networks } from "../../registry/networks.ts";
import type { AskedBlock } from "../contract/parameters.ts";
import { aliasColumns } from "../database/columns.ts";
import type { Database } from "../database/database.ts";
import type { Freshness } from "../database/freshness.ts";
import { memoize } from "../database/memoize.ts";
import { overloaded } from "../database/problems.ts";
import { compileStatement } from "../database/statement.ts";
import { indexTables } from "../database/tables.ts";
import type { CheckQuestion, DelegationChecks } from "../delegations/check-delegation.ts";
import { Turns } from "../limits/turns.ts";
import { INDEX_RETRY_SECONDS, Problem } from "../problem.ts";
import { describeChain, type Shards } from "../shards/shards.ts";

/** A proof counts as this many requests: a node answers two to five for it. */
export const PROOF_COST = 10;
/** Maximum time for the nodes of a network to prove an answer. */
const TIMEOUT_MS = 8_000;
/** Proofs in flight, of all callers and of one. */
const PLACES = 16;
const MAX_OF_CALLER = 4;

type Options = {
  database: Database;
  shards: Shards;
  checks: DelegationChecks;
  /** URLs of nodes by chain id. */
  rpcUrls: ReadonlyMap<number, readonly string[]>;
  log: Logger;
};

export type ProvenAnswer = { proof: Proof; freshness: Freshness; block: string };

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
  /** Networks whose headers were seen not to hash to their blocks' hashes. */
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
    if (this.#unprovable.has(chainId)) return "the headers of its blocks do not have the known form";
    return null;
  }

  requireProvable(chainId: number): void {
    const obstacle = this.findObstacle(chainId);
    // A network's form of headers may change, or a node be replaced: those are tried again.
    if (obstacle && !this.#unprovable.has(chainId)) throw unprovable(chainId, obstacle);
  }

  /** Proves the answer to a check: the newest one, or the one at a past block. Each caller has turns. */
  async prove(caller: string, question: CheckQuestion, asked: AskedBlock): Promise<ProvenAnswer> {
    const release = await this.#turns.take(caller, 1, MAX_OF_CALLER);
    try {
      const first = await this.#tryToProve(question, asked);
      // A reorg may have changed the index between its answer and its block: only a second difference is one.
      const { proof, answer, freshness, block } = first.isSame ? first : await this.#tryToProve(question, asked);
      const { isSame } = first.isSame ? first : { isSame: String(proof.result) === answer };
      if (isSame) return { proof, freshness, block };
      const { chainId, check } = question;
      const where = { chainId, block, registry: check.version, check: check.name };
      this.#options.log.error({ ...where, answer, proven: proof.result }, "The index differs from a proof");
      throw new Problem(
        "index-differs",
        `The index of ${describeChain(chainId)} differs from the proven state of the registry at block ${block}, so there is no answer.`,
        { headers: { "Retry-After": String(INDEX_RETRY_SECONDS) } },
      );
    } finally {
      release();
    }
  }

  async #tryToProve(question: CheckQuestion, asked: AskedBlock) {
    const { shards, checks } = this.#options;
    const { chainId, check } = question;
    const schema = shards.findSchema(check.version, chainId);
    const known = await this.#readNewestBlock(schema, chainId);
    // Without a block of its own, the newest one: the index's answer and the proof must be of the same block.
    const block = asked.block ?? known?.number;
    const { value: answer, freshness: read } = await checks.answer(schema, { ...question, block });
    const freshness = shards.requireFresh(chainId, read, { ...asked, block });
    if (asked.minBlock !== undefined) shards.requireFresh(chainId, read, { minBlock: asked.minBlock });
    if (!known || block === undefined) throw new Error("A fresh index has a block.");
    const proof = await this.#askNodes(question, BigInt(block), { number: BigInt(known.number), hash: known.hash });
    return { proof, answer, freshness, block, isSame: String(proof.result) === answer };
  }

  async #readNewestBlock(schema: string, chainId: number) {
    const [row] = await this.#options.database.read("checks", this.#newestBlock(schema), { chainId });
    return row;
  }

  async #askNodes(question: CheckQuestion, block: bigint, known: { number: bigint; hash: Hex }): Promise<Proof> {
    const { rpcUrls, log } = this.#options;
    const { chainId, check } = question;
    const registry = networks.get(chainId)?.[check.version]?.address;
    const urls = rpcUrls.get(chainId) ?? [];
    if (!registry) throw new Error(`Chain ${chainId} has no ${check.version} registry.`);
    // viem takes long to load.
    const { proveCheck, UnprovableBlockError, UnprovableNetworkError } = await import("./prove-check.ts");
    const { askNodes } = await import("./ask-nodes.ts");
    try {
      const proof = await askNodes(urls, TIMEOUT_MS, (request) =>
        proveCheck(request, toQuestion(question), registry, { block, known }),
      );
      this.#unprovable.delete(chainId);
      return proof;
    } catch (error) {
      if (error instanceof UnprovableBlockError) throw unprovable(chainId, `block ${block} is older than the registry`);
      log.warn({ chainId, block: String(block), err: redactError(error) }, "An answer cannot be proven");
      if (error instanceof UnprovableNetworkError) {
        this.#unprovable.add(chainId);
        throw unprovable(chainId, this.findObstacle(chainId) ?? "");
      }
      throw new Problem(
        "proof-unavailable",
        `No node of ${describeChain(chainId)} proves the state of block ${block}: it does not respond in time, is behind the index, or lacks the state of that block.`,
        { status: 503, headers: { "Retry-After": String(INDEX_RETRY_SECONDS) } },
      );
    }
  }
}

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
const toQuestion = ({ check, chainId, delegate, vault, contract, tokenId, rights }: CheckQuestion): Question => ({
  registry: check.version,
  check: check.name,
  chainId,
  delegate,
  vault,
  ...(takes(check, "contract") && { contract }),
  ...(takes(check, "tokenId") && { tokenId }),
  ...(takes(check, "rights") && { rights }),
});
