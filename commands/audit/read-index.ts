import type pg from "pg";
import type { Address, Hash } from "viem";
import type { Delegation, DelegationKey } from "../../indexer/verification/delegation.ts";
import { type Question, questionsAbout } from "../../indexer/verification/question.ts";
import { CHECKS } from "../../registry/checks.ts";
import { FULL_RIGHTS, NO_CONTRACT, NO_TOKEN } from "../../registry/delegation.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import { CannotAuditError } from "./cannot-audit.ts";

/** State of a chain in the index. */
export type IndexedChain = {
  block: bigint;
  hash: Hash;
  /** Addresses of the indexed registries. */
  addresses: Readonly<Record<RegistryVersion, Address | null>>;
};

export type Snapshot = IndexedChain & {
  delegations: readonly Delegation[];
  /** Checks with the index's answers. */
  checks: readonly { question: Question; answer: string }[];
};

const FETCH_ROWS = 10_000;

/** Postgres error codes if no indexer has created the schema "analytics" yet. */
const MISSING_SCHEMA = ["42P01", "3F000", "42883"];

/** Reads the state of a chain. Throws a CannotAuditError if the chain or the block is not indexed. */
export const readIndexedChain = async (
  client: pg.Client,
  chainId: number,
  block: bigint | null,
): Promise<IndexedChain> => {
  const { rows } = await client
    .query(
      `select indexed_block, indexed_block_hash, registry_v1, registry_v2, reached_block, newest_block
       from analytics.chains where chain_id = $1`,
      [chainId],
    )
    .catch((error) => {
      if (!MISSING_SCHEMA.includes(error.code)) throw error;
      return { rows: [] };
    });
  const [chain] = rows;
  if (!chain) {
    throw new CannotAuditError(
      `Chain ${chainId} is not indexed in this database. Start an indexer for it, or name another DATABASE_URL.`,
    );
  }
  if (chain.indexed_block === null) {
    throw new CannotAuditError(
      `Chain ${chainId} is still being indexed: its index has reached block ${chain.reached_block} of ${chain.newest_block}. Wait until /status says that it is ready.`,
    );
  }
  if (block !== null && block > BigInt(chain.indexed_block)) {
    throw new CannotAuditError(
      `Block ${block} is not indexed yet: the newest indexed block of chain ${chainId} is ${chain.indexed_block}.`,
    );
  }
  return {
    block: BigInt(chain.indexed_block),
    hash: chain.indexed_block_hash,
    addresses: { v1: chain.registry_v1, v2: chain.registry_v2 },
  };
};

/** Reads the start block that an indexer has found for a registry; 0 if none. */
export const readIndexedStartBlock = async (
  client: pg.Client,
  chainId: number,
  registry: RegistryVersion,
): Promise<number> => {
  const { rows } = await client.query(
    "select min(block) as block from indexer.start_block where chain_id = $1 and registry = $2",
    [chainId, registry],
  );
  return Number(rows[0]?.block ?? 0);
};

const KEY = `registry, coalesce(token_standard, type) as type, vault, delegate, coalesce(contract, '${NO_CONTRACT}') as contract,
  coalesce(token_id, ${NO_TOKEN})::text as token_id, coalesce(rights, '${FULL_RIGHTS}') as rights`;

const readKey = (row: pg.QueryResultRow): DelegationKey => ({
  registry: row.registry,
  type: row.type,
  vault: row.vault,
  delegate: row.delegate,
  contract: row.contract,
  tokenId: BigInt(row.token_id),
  rights: row.rights,
});

type Options = {
  chainId: number;
  /** null: the newest indexed block. */
  block: bigint | null;
  /** Number of delegations from the log to check, including revoked ones. */
  sampleSize: number;
  /** More delegations to check. */
  extraDelegations: readonly DelegationKey[];
};

/**
 * Reads a snapshot of a chain's index. Postgres materializes the result and releases the locks: a reorg, and
 * every query behind it, waits while the snapshot is created, but not while it is compared.
 */
export const readSnapshot = async (
  client: pg.Client,
  { chainId, block, sampleSize, extraDelegations }: Options,
): Promise<Snapshot> => {
  await client.query("begin isolation level repeatable read read only");
  try {
    const chain = await readIndexedChain(client, chainId, block);
    const [source, values] =
      block === null
        ? ["analytics.delegations where chain_id = $1", [chainId]]
        : ["analytics.delegations_at($1, $2)", [chainId, block]];
    await client.query(
      `declare delegations no scroll cursor with hold for select ${KEY}, coalesce(amount, 0)::text as amount from ${source}`,
      values,
    );
    const { rows: logged } = await client.query(
      `select ${KEY} from analytics.changes where chain_id = $1 and block_number <= $2 order by random() limit $3`,
      [chainId, block ?? chain.block, sampleSize],
    );
    const isIndexed = ({ registry }: DelegationKey) => chain.addresses[registry] !== null;
    const questions = questionsAbout([...logged.map(readKey), ...extraDelegations].filter(isIndexed));
    const checks = await readChecks(client, chainId, block, questions);
    await client.query("commit");
    return { ...chain, checks, delegations: await fetchDelegations(client) };
  } catch (error) {
    await client.query("rollback").catch(() => {});
    throw error;
  }
};

const fetchDelegations = async (client: pg.Client): Promise<Delegation[]> => {
  const delegations: Delegation[] = [];
  for (;;) {
    const { rows } = await client.query(`fetch ${FETCH_ROWS} from delegations`);
    for (const row of rows) delegations.push({ ...readKey(row), amount: BigInt(row.amount) });
    if (rows.length < FETCH_ROWS) break;
  }
  await client.query("close delegations");
  return delegations;
};

const COLUMNS = { contract: "q.contract", tokenId: "q.token_id", rights: "q.rights" };

/** Reads the index's answers, with one statement per kind of check. */
const readChecks = async (
  client: pg.Client,
  chainId: number,
  block: bigint | null,
  questions: readonly Question[],
): Promise<{ question: Question; answer: string }[]> => {
  const answered: { question: Question; answer: string }[] = [];
  for (const check of CHECKS) {
    const { version, name, takes } = check;
    const asked = questions.filter((question) => question.check === check);
    const args = ["$1", "q.delegate", "q.vault", ...takes.map((name) => COLUMNS[name]), "at_block => $2"];
    const { rows } = await client.query<{ answer: string }>(
      `select analytics.check_${name}${version === "v1" ? "_v1" : ""}(${args.join(", ")})::text as answer
       from unnest($3::text[], $4::text[], $5::text[], $6::numeric[], $7::text[]) with ordinality
         as q (vault, delegate, contract, token_id, rights, place)
       order by place`,
      [
        chainId,
        block,
        asked.map(({ about }) => about.vault),
        asked.map(({ about }) => about.delegate),
        asked.map(({ about }) => about.contract),
        asked.map(({ about }) => about.tokenId),
        asked.map(({ about }) => about.rights),
      ],
    );
    answered.push(...asked.map((question, place) => ({ question, answer: rows[place]?.answer ?? "" })));
  }
  return answered;
};
