import { FULL_RIGHTS, MAX_UINT256, NO_CONTRACT, NO_TOKEN } from "./delegation.ts";
import type { RegistryVersion } from "./networks.ts";

export const CHECKS = {
  v1: ["all", "contract", "token"],
  v2: ["all", "contract", "erc721", "erc20", "erc1155"],
} as const satisfies Record<RegistryVersion, readonly string[]>;

export type Check = (typeof CHECKS)[RegistryVersion][number];

/** What a delegation may cover, in SQL. The question is `q`. */
type Scope = { type: string; contract: string; tokenId: string };

const ALL: Scope = { type: "ALL", contract: `'${NO_CONTRACT}'`, tokenId: `${NO_TOKEN}` };
const CONTRACT: Scope = { type: "CONTRACT", contract: "q.contract", tokenId: `${NO_TOKEN}` };
const token = (type: string): Scope => ({ type, contract: "q.contract", tokenId: "q.token_id" });

/** What satisfies each check, the broadest first. */
const SATISFYING: Record<Check, readonly Scope[]> = {
  all: [ALL],
  contract: [ALL, CONTRACT],
  token: [ALL, CONTRACT, token("TOKEN")],
  erc721: [ALL, CONTRACT, token("ERC721")],
  erc20: [ALL, CONTRACT, { type: "ERC20", contract: "q.contract", tokenId: `${NO_TOKEN}` }],
  erc1155: [ALL, CONTRACT, token("ERC1155")],
};

/** Whether a check is answered with a balance. */
export const isBalanceCheck = (check: Check): boolean => check === "erc20" || check === "erc1155";

/** A delegation for a balance gives its amount; every broader one gives all there can be. */
const isBroader = ({ type }: Scope) => type === ALL.type || type === CONTRACT.type;

/**
 * A delegation of exactly this scope. One probe of the primary key, however many delegations the two
 * wallets have. In v2, full rights count for any rights that are asked for.
 */
const delegation = (relation: string, version: RegistryVersion, { type, contract, tokenId }: Scope) =>
  `from ${relation} d
   where d.chain_id = q.chain_id and d.vault = q.vault and d.delegate = q.delegate
     and d.type = '${type}' and d.contract = ${contract} and d.token_id = ${tokenId}
     ${version === "v2" ? `and d.rights = any (array['${FULL_RIGHTS}', q.rights])` : ""}`;

/**
 * The registry's rule for a check, as SQL: a broader delegation satisfies a narrower one.
 * @param relation what holds the delegations, with the columns of `delegation_v1` or `delegation_v2`. The
 * question is `q`: chain_id, vault, delegate, contract, token_id, rights.
 */
export const checkRule = (relation: string, version: RegistryVersion, check: Check): string => {
  const scopes = SATISFYING[check];
  const held = (scopes: readonly Scope[]) =>
    scopes.map((scope) => `exists (select ${delegation(relation, version, scope)})`).join(" or ");
  if (!isBalanceCheck(check)) return held(scopes);
  const amounts = scopes
    .filter((scope) => !isBroader(scope))
    .map((scope) => `(select max(d.amount) ${delegation(relation, version, scope)})`);
  return `case when ${held(scopes.filter(isBroader))} then ${MAX_UINT256} else coalesce(${amounts.join()}, 0) end`;
};

/**
 * The delegations by which the rule is satisfied, as SQL: all that satisfy it by themselves, each with how
 * broad it is (`breadth`, 0 is the broadest) and the balance that it gives (`gives`).
 */
export const grantsOf = (relation: string, version: RegistryVersion, check: Check): string =>
  SATISFYING[check]
    .map((scope, breadth) => {
      const gives = isBroader(scope) ? `${MAX_UINT256}` : "d.amount";
      return `select d.*, ${breadth} as breadth, ${isBalanceCheck(check) ? gives : "null"}::numeric as gives ${delegation(relation, version, scope)}`;
    })
    .join(" union all ");
