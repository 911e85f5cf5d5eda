import { FULL_RIGHTS, MAX_UINT256, NO_CONTRACT, NO_TOKEN } from "./delegation.ts";
import type { RegistryVersion } from "./networks.ts";
import { selectLatestChange } from "./state-at.ts";

export const CHECKS = {
  v1: ["all", "contract", "token"],
  v2: ["all", "contract", "erc721", "erc20", "erc1155"],
} as const satisfies Record<RegistryVersion, readonly string[]>;

export type Check = (typeof CHECKS)[RegistryVersion][number];

/** A check, or in v2 one for a token of either standard. */
export type Rule = Check | "anyToken";

/** The scope of a delegation, as SQL expressions, and its rank (0 is the broadest). The row `q` holds the question. */
export type Scope = { type: string; contract: string; tokenId: string; breadth: number };

const ALL: Scope = { type: "ALL", contract: `'${NO_CONTRACT}'`, tokenId: `${NO_TOKEN}`, breadth: 0 };
const CONTRACT: Scope = { type: "CONTRACT", contract: "q.contract", tokenId: `${NO_TOKEN}`, breadth: 1 };
const token = (type: string): Scope => ({ type, contract: "q.contract", tokenId: "q.token_id", breadth: 2 });

/** The scopes that satisfy each check, the broadest first. */
export const SATISFYING_SCOPES: Record<Rule, readonly Scope[]> = {
  all: [ALL],
  contract: [ALL, CONTRACT],
  token: [ALL, CONTRACT, token("TOKEN")],
  erc721: [ALL, CONTRACT, token("ERC721")],
  erc20: [ALL, CONTRACT, { ...token("ERC20"), tokenId: `${NO_TOKEN}` }],
  erc1155: [ALL, CONTRACT, token("ERC1155")],
  anyToken: [ALL, CONTRACT, token("ERC721"), token("ERC1155")],
};

/** True for a check that returns a balance. */
export const isBalanceCheck = (check: Rule): boolean => check === "erc20" || check === "erc1155";

/** A broader delegation grants the largest possible balance; a delegation for a balance grants its amount. */
export const isBroader = ({ type }: Scope) => type === ALL.type || type === CONTRACT.type;

/** Builds the SQL `from d where …` for the delegations of exactly one scope that the question's wallets have. */
export type FromScope = (scope: Scope) => string;

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
  const scopes = SATISFYING_SCOPES[check];
  const existsAny = (scopes: readonly Scope[]) => scopes.map((scope) => `exists (select ${from(scope)})`).join(" or ");
  if (!isBalanceCheck(check)) return existsAny(scopes);
  const amounts = scopes.filter((scope) => !isBroader(scope)).map((scope) => `(select max(d.amount) ${from(scope)})`);
  return `case when ${existsAny(scopes.filter(isBroader))} then ${MAX_UINT256} else coalesce(${amounts.join()}, 0) end`;
};
