import { FULL_RIGHTS } from "./delegation.ts";
import type { RegistryVersion } from "./networks.ts";

/** The columns that identify a delegation in the log. */
export const DELEGATION_KEY = "chain_id, registry, vault, delegate, type, contract, token_id, rights";

/** SQL expressions for a delegation's key. */
type KeyColumns = Record<
  "chainId" | "registry" | "vault" | "delegate" | "type" | "contract" | "tokenId" | "rights",
  string
>;

/** SQL for a delegation's key as one text. */
const joinKey = ({ chainId, registry, vault, delegate, type, contract, tokenId, rights }: KeyColumns): string =>
  `(${chainId})::text || ${registry} || ${vault} || ${delegate} || ${type} || ${contract} || (${tokenId})::text || ${rights}`;

/** SQL for the hash of that text: an index of the log by the text itself would be six times as large. */
const hash = (text: string): string => `md5(${text})::uuid`;

/** The key columns of a row of the log. @param row - its alias, with a dot */
export const keyColumns = (row = ""): KeyColumns => ({
  chainId: `${row}chain_id`,
  registry: `${row}registry`,
  vault: `${row}vault`,
  delegate: `${row}delegate`,
  type: `${row}type`,
  contract: `${row}contract`,
  tokenId: `${row}token_id`,
  rights: `${row}rights`,
});

/** The expression of the log's index by delegation. */
export const KEY_HASH = `(${hash(joinKey(keyColumns()))})`;

/** One of a delegation's wallets. */
export type End = "vault" | "delegate";

/** SQL expressions for one of a delegation's wallets and its scope. */
type ScopeColumns = Omit<KeyColumns, End> & { wallet: string };

const joinScope = ({ chainId, registry, wallet, type, contract, tokenId, rights }: ScopeColumns): string =>
  `(${chainId})::text || ${registry} || ${wallet} || ${type} || ${contract} || (${tokenId})::text || ${rights}`;

/** The scope's columns of a row. The tables of active delegations have no registry, and that of v1 no rights. */
const scopeColumns = (end: End, table: RegistryVersion | "log", row = ""): ScopeColumns => ({
  ...keyColumns(row),
  wallet: `${row}${end}`,
  ...(table !== "log" && { registry: `'${table}'` }),
  ...(table === "v1" && { rights: `'${FULL_RIGHTS}'` }),
});

/** The expression of an index by one of the wallets and the scope. */
export const scopeHash = (end: End, table: RegistryVersion | "log"): string =>
  `(${hash(joinScope(scopeColumns(end, table)))})`;

/** SQL condition for the rows `row` of exactly one scope and wallet: it can be found by that index. */
export const isOfScope = (
  end: End,
  table: RegistryVersion | "log",
  { row, scope }: { row: string; scope: ScopeColumns },
): string => {
  const [found, asked] = [joinScope(scopeColumns(end, table, row)), joinScope(scope)];
  return `${hash(found)} = ${hash(asked)} and ${found} = ${asked}`;
};

/** True for a change that made a delegation: the log's indexes by scope have only these. */
export const IS_MADE = "active and not was_active";

/**
 * Selects a delegation's latest change up to a block: one probe of the log's index by delegation, whatever the wallets
 * and however often the delegation changed.
 * @param log - the relation with the log
 * @param condition - an SQL condition without which the log is not read
 */
export const selectLatestChange = (
  log: string,
  delegation: KeyColumns,
  { block, condition }: { block: string; condition?: string | undefined },
): string => {
  const [key, asked] = [joinKey(keyColumns("change.")), joinKey(delegation)];
  // Somebody may find two own delegations with the same hash. The texts are compared instead of the columns, even for
  // the chain: by a column Postgres might use another index, and read all changes of a wallet or a chain.
  return `(
    select change.* from ${log} change
    where ${hash(key)} = ${hash(asked)} and ${key} = ${asked}
      and change.block_number <= ${block}${condition ? ` and ${condition}` : ""}
    order by change.block_number desc, change.log_index desc, change.ordinal desc
    limit 1)`;
};

/**
 * Selects the delegations that were active at a block: the latest change of each, if it left the delegation active.
 * @param log the relation with the log
 * @param condition an SQL condition for the changes up to the block, and for the delegations to include
 */
export const selectActiveAt = (log: string, condition: string): string => `(
  select * from (
    select distinct on (${DELEGATION_KEY}) *
    from ${log}
    where ${condition}
    order by ${DELEGATION_KEY}, block_number desc, log_index desc
  ) latest
  where active)`;
