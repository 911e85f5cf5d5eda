import pg from "pg";
import { type Address, getAddress, type Hex, zeroAddress, zeroHash } from "viem";
import type { Delegate, ScopeOptions, Vault, WalletOptions } from "../../client/src/index.ts";
import { type Answers, formatLists, formatQuestion, type Listed, type WorldQuestion } from "./answers.ts";
import type { Queries } from "./index-state.ts";
import type { World } from "./world.ts";

// Asks the schema analytics.

/** Builds a call of a check. The index selects one of the accepted spellings, so that all of them occur. */
const buildCall = (question: WorldQuestion, index: number): { call: string; values: (string | bigint)[] } => {
  const { registry, check, vault, delegate, ...rest } = question;
  const values: (string | bigint)[] = [index % 3 === 0 ? getAddress(delegate) : delegate, vault];
  if ("contract" in rest) values.push(rest.contract);
  if ("tokenId" in rest) values.push(rest.tokenId);
  if ("rights" in rest) values.push(spellRights(rest.rights, index));
  return { call: `check_${check}${registry === "v1" ? "_v1" : ""}`, values };
};

/** Full rights may be empty, and others may be text. */
const spellRights = (rights: Hex, index: number): string => {
  if (rights === zeroHash) return ["", "0x", rights][index % 3] ?? rights;
  return index % 2 === 0 ? rights : Buffer.from(rights.slice(2), "hex").toString().replaceAll("\0", "");
};

/** A row of analytics.delegations. */
type Row = {
  registry: "v1" | "v2";
  type: string;
  token_standard: string | null;
  vault: Address;
  delegate: Address;
  contract: Address | null;
  token_id: string | null;
  rights: Hex | null;
  amount: string | null;
};

const readRow = (row: Row): Listed => ({
  type: row.token_standard ?? row.type,
  vault: row.vault,
  delegate: row.delegate,
  contract: row.contract ?? zeroAddress,
  tokenId: BigInt(row.token_id ?? 0),
  ...(row.registry === "v2" && { rights: row.rights ?? zeroHash, amount: BigInt(row.amount ?? 0) }),
});

/** Reads answers in SQL at a block or the newest one, in one transaction: checks, and all lists. */
export const readSqlAnswers = async ({
  databaseUrl,
  chainId,
  world,
  atBlock,
  questions,
}: {
  databaseUrl: string;
  chainId: number;
  world: World;
  atBlock: bigint | null;
  questions: readonly WorldQuestion[];
}): Promise<{ block: bigint; answers: Answers }> => {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  try {
    await client.query("begin isolation level repeatable read read only");
    const answers: Answers = new Map();
    for (const [index, question] of questions.entries()) {
      const { call, values } = buildCall(question, index);
      const given = atBlock === null ? [chainId, ...values] : [chainId, ...values, atBlock];
      const { rows } = await client.query({
        name: `${call}${given.length}`,
        text: `select analytics.${call}(${given.map((_, place) => `$${place + 1}`).join(", ")})::text as answer`,
        values: given,
      });
      answers.set(formatQuestion(question), rows[0].answer);
    }

    const source = atBlock === null ? "analytics.delegations where chain_id = $1" : "analytics.delegations_at($1, $2)";
    const { rows } = await client.query<Row>(
      `select * from ${source}`,
      atBlock === null ? [chainId] : [chainId, atBlock],
    );
    for (const { address } of world.wallets) {
      for (const version of ["v1", "v2"] as const) {
        const ofVersion = rows.filter(({ registry }) => registry === version).map(readRow);
        for (const [name, list] of formatLists(version, address, ofVersion)) answers.set(name, list);
      }
    }
    const known = await client.query("select analytics.known_block($1, null, $2) as block", [chainId, atBlock]);
    return { block: BigInt(known.rows[0].block), answers };
  } finally {
    await client.end();
  }
};

type GrantOptions = Omit<ScopeOptions & WalletOptions, "block"> & { chainId: number; block?: bigint };

/** Reads the vaults of a delegate or the delegates of a vault. */
export const readGrantsInSql = async (
  database: Queries,
  list: "vaults" | "delegates",
  wallet: Address,
  { check, registry, chainId, contract, tokenId, rights, block, timestamp }: GrantOptions,
) => {
  const values = Object.entries({
    wallet,
    '"check"': check,
    registry,
    chain_ids: [chainId],
    contract,
    token_id: tokenId,
    rights,
    at_block: block,
    at_time: timestamp === undefined ? undefined : new Date(Number(timestamp) * 1000),
  }).filter(([, value]) => value !== undefined);
  const names = values.map(([name], index) => `${name} => $${index + 1}`);
  const { rows } = await database.query<object>(
    `select chain_id, ${list.slice(0, -1)} as wallet, amount, registries, type, token_standard, since_block, since,
            transaction_hash, delegations
     from analytics.${list}_of(${names.join(", ")})`,
    values.map(([, value]) => value),
  );
  return rows;
};

/** Describes a row of the API as readGrantsInSql() does. */
export const describeGrant = (row: Vault | Delegate) => {
  const { chainId, amount, delegations } = row;
  const [first] = delegations;
  return {
    chain_id: String(chainId),
    wallet: ("vault" in row ? row.vault : row.delegate).toLowerCase(),
    amount,
    registries: [...new Set(delegations.map(({ registry }) => registry))].sort(),
    type: first?.type,
    token_standard: first?.tokenStandard,
    since_block: first?.blockNumber,
    since: new Date(Number(first?.blockTimestamp) * 1000),
    transaction_hash: first?.transactionHash,
    delegations: String(delegations.length),
  };
};
