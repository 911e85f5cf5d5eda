import type { Check } from "./checks.ts";
import {
  type DelegationTypeV1,
  type DelegationTypeV2,
  FULL_RIGHTS,
  hasTokenId,
  isToken,
  MAX_UINT256,
  NO_CONTRACT,
  NO_TOKEN,
} from "./delegation.ts";
import type { RegistryVersion } from "./networks.ts";
import { selectLatestChange } from "./state-at.ts";

/** The scope of a delegation, as SQL expressions, and its rank (0 is the broadest). The row `q` holds the question. */
export type ScopeSql = {
  type: DelegationTypeV1 | DelegationTypeV2;
  contract: string;
  tokenId: string;
  breadth: number;
};

/** The scopes of a question's delegations of some types, the broadest first. */
export const scopesOf = (types: readonly ScopeSql["type"][]): ScopeSql[] =>
  types.map((type) => ({
    type,
    contract: type === "ALL" ? `'${NO_CONTRACT}'` : "q.contract",
    tokenId: hasTokenId(type) ? "q.token_id" : `${NO_TOKEN}`,
    breadth: type === "ALL" ? 0 : type === "CONTRACT" ? 1 : 2,
  }));

/** Builds the SQL `from d where …` for the delegations of exactly one scope that the question's wallets have. */
export type FromScope = (scope: ScopeSql) => string;

/**
 * Reads active delegations: one probe of the primary key for each rights, however many delegations the two wallets have.
 * In v2, full rights satisfy any rights.
 * @param relation - the relation of delegations, with the columns of `delegation_v1` or `delegation_v2`
 */
export const fromActive =
  (relation: string, version: RegistryVersion): FromScope =>
  ({ type, contract, tokenId }) =>
    `from ${relation} d
   where d.chain_id = q.chain_id and d.vault = q.vault and d.delegate = q.delegate
     and d.type = '${type}' and d.contract = ${contract} and d.token_id = ${tokenId}
     ${version === "v2" ? `and d.rights = any (array['${FULL_RIGHTS}', q.rights])` : ""}`;

/**
 * Reads the delegations that were active at the block `q.block`: one probe of the log for each rights.
 * @param log - the relation with the log
 * @param condition - an SQL condition without which the log is not read
 */
export const fromLog =
  (log: string, version: RegistryVersion, condition?: string): FromScope =>
  ({ type, contract, tokenId }) => {
    const delegation = {
      chainId: "q.chain_id",
      registry: `'${version}'`,
      vault: "q.vault",
      delegate: "q.delegate",
      type: `'${type}'`,
      contract,
      tokenId: `${tokenId}::numeric`,
      rights: "asked.rights",
    };
    const latest = selectLatestChange(log, delegation, { block: "q.block", condition });
    // Not full rights twice: each delegation is read once.
    const rights = version === "v2" ? `('${FULL_RIGHTS}'), (nullif(q.rights, '${FULL_RIGHTS}'))` : `('${FULL_RIGHTS}')`;
    return `from (values ${rights}) asked (rights) cross join lateral ${latest} d where d.active`;
  };

/**
 * Builds the SQL expression of the registry's rule for a check: a broader delegation satisfies a narrower check. It reads
 * the question from a row `q`: chain_id, vault, delegate, contract, token_id, rights and, for a past block, block.
 */
export const checkRule = (from: FromScope, check: Check): string => {
  const scopes = scopesOf(check.satisfiedBy);
  const existsAny = (scopes: readonly ScopeSql[]) =>
    scopes.map((scope) => `exists (select ${from(scope)})`).join(" or ");
  if (check.returns === "boolean") return existsAny(scopes);
  // A broader delegation grants the largest possible balance; a delegation for a balance grants its amount.
  const isBroad = ({ type }: ScopeSql) => !isToken(type);
  const amounts = scopes.filter((scope) => !isBroad(scope)).map((scope) => `(select max(d.amount) ${from(scope)})`);
  return `case when ${existsAny(scopes.filter(isBroad))} then ${MAX_UINT256} else coalesce(${amounts.join()}, 0) end`;
};
