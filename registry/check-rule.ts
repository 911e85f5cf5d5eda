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

/** A delegation of the narrowest scope gives its amount; every broader one gives all there can be. */
const balanceOf = (check: Check): string =>
  `case d.type when '${SATISFYING[check].at(-1)?.type}' then d.amount else ${MAX_UINT256} end`;

const either = (values: readonly string[]): string => {
  const different = [...new Set(values)];
  return different.length === 1 ? `= ${different[0]}` : `= any (array[${different.join()}])`;
};

/**
 * The delegations that satisfy a check. One scan of the primary key finds all of them: it goes from one to
 * the next of a few places, however many delegations the two wallets have. Places that no scope has, such as
 * that of a contract's delegation for the zero address, do not count. In v2, full rights count for any rights
 * that are asked for.
 */
const satisfying = (relation: string, version: RegistryVersion, check: Check): string => {
  const scopes = SATISFYING[check];
  const places = scopes.map(({ type, contract, tokenId }) => `('${type}', ${contract}, ${tokenId})`);
  return `from ${relation} d
   where d.chain_id = q.chain_id and d.vault = q.vault and d.delegate = q.delegate
     and d.type ${either(scopes.map(({ type }) => `'${type}'`))}
     and d.contract ${either(scopes.map(({ contract }) => contract))}
     and d.token_id ${either(scopes.map(({ tokenId }) => tokenId))}
     ${version === "v2" ? `and d.rights ${either([`'${FULL_RIGHTS}'`, "q.rights"])}` : ""}
     ${places.length > 1 ? `and (d.type, d.contract, d.token_id) in (${places.join()})` : ""}`;
};

/**
 * The registry's rule for a check, as SQL: a broader delegation satisfies a narrower one.
 * @param relation what holds the delegations, with the columns of `delegation_v1` or `delegation_v2`. The
 * question is `q`: chain_id, vault, delegate, contract, token_id, rights.
 */
export const checkRule = (relation: string, version: RegistryVersion, check: Check): string =>
  isBalanceCheck(check)
    ? `coalesce((select max(${balanceOf(check)}) ${satisfying(relation, version, check)}), 0)`
    : `exists (select ${satisfying(relation, version, check)})`;

/**
 * The delegations by which the rule is satisfied, as SQL: all that satisfy it by themselves, each with how
 * broad it is (`breadth`, the least is the broadest) and the balance that it gives (`gives`).
 */
export const grantsOf = (relation: string, version: RegistryVersion, check: Check): string => {
  const types = SATISFYING[check].map(({ type }) => `'${type}'`);
  return `select d.*, array_position(array[${types.join()}], d.type) as breadth,
     ${isBalanceCheck(check) ? balanceOf(check) : "null"}::numeric as gives
   ${satisfying(relation, version, check)}`;
};
