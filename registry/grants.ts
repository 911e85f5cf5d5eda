import { fromActive, fromLog, type ScopeSql, scopesOf } from "./check-rule.ts";
import { CHECK_NAMES, CHECKS, type CheckName, findCheck, isBalanceCheck, takes } from "./checks.ts";
import { FULL_RIGHTS, hasAmount, MAX_UINT256 } from "./delegation.ts";
import type { RegistryVersion } from "./networks.ts";
import { type End, isOfScope } from "./state-at.ts";

// Which wallets may act for a wallet, and for which wallets it may act: all pairs that satisfy a check, with the
// delegations that grant it.

/** The types that satisfy a check of any name in a registry. v1's check for a token is for any standard, v2 has none. */
const typesOf = (version: RegistryVersion, name: CheckName): ScopeSql["type"][] => {
  const check = findCheck(version, version === "v1" && name === "erc721" ? "token" : name);
  if (check) return [...check.satisfiedBy];
  if (name !== "token") return [];
  const ofTokens = CHECKS.filter((each) => each.version === version && takes(each, "tokenId"));
  return [...new Set(ofTokens.flatMap(({ satisfiedBy }) => [...satisfiedBy]))];
};

/** A registry to ask: the scopes that satisfy the check, and the balance that a delegation gives, as SQL. */
export type AskedRegistry = {
  version: RegistryVersion;
  scopes: readonly ScopeIf[];
  gives: (scope: ScopeSql) => string;
};

/** A scope that satisfies the check only on an SQL condition. */
type ScopeIf = ScopeSql & { condition?: string };

/** The registries that answer a check, each by its rule. */
export const askRegistries = (versions: readonly RegistryVersion[], check: CheckName): AskedRegistry[] =>
  versions.flatMap((version) => {
    const types = typesOf(version, check);
    if (types.length === 0) return [];
    return { version, scopes: scopesOf(types), gives: isBalanceCheck(check) ? givenBalance : () => "null" };
  });

const BALANCE_CHECKS = CHECK_NAMES.filter(isBalanceCheck);

/**
 * The registries that answer any check, which SQL expressions name.
 * @param registry - v1, v2 or both
 */
export const askAnyCheck = ({ check, registry }: { check: string; registry: string }): AskedRegistry[] => {
  const quote = (names: readonly string[]) => names.map((name) => `'${name}'`).join();
  return (["v1", "v2"] as const).map((version) => {
    const scopes = new Map<string, { scope: ScopeSql; checks: CheckName[] }>();
    for (const name of CHECK_NAMES) {
      for (const scope of askRegistries([version], name).flatMap(({ scopes }) => scopes)) {
        const { checks } = scopes.get(scope.type) ?? { checks: [] };
        scopes.set(scope.type, { scope, checks: [...checks, name] });
      }
    }
    return {
      version,
      scopes: [...scopes.values()].map(({ scope, checks }) => ({
        ...scope,
        condition: `${registry} in ('both', '${version}') and ${check} in (${quote(checks)})`,
      })),
      gives: (scope) => `case when ${check} in (${quote(BALANCE_CHECKS)}) then ${givenBalance(scope)} end`,
    };
  });
};

/** The balance that a delegation gives: without limit if it is not for a balance. */
const givenBalance = ({ type }: ScopeSql): string => (hasAmount(type) ? "d.amount" : `${MAX_UINT256}`);

/** Where delegations are read from. */
export type Source = {
  /** The relations of active delegations, or the log. */
  active: (version: RegistryVersion) => string;
  log: string;
  /** The newest state, or the one at `q.block`. */
  moment: "now" | "past";
  /** An SQL condition without which nothing is read. */
  condition: string;
};

export const otherEnd = (end: End): End => (end === "vault" ? "delegate" : "vault");

const POSITION = "block_number, log_index";

/**
 * Selects the wallets with a delegation of exactly one scope and rights, each with the event that made it, oldest first.
 * At a past block, also the ones of delegations that were revoked by then.
 */
const selectOfScope = (
  { active, log, moment, condition }: Source,
  { end, version, scope, rights }: { end: End; version: RegistryVersion; scope: ScopeIf; rights: string },
): string => {
  const { type, contract, tokenId, breadth, condition: isAsked = "true" } = scope;
  const asked = {
    chainId: "q.chain_id",
    registry: `'${version}'`,
    wallet: "q.wallet",
    type: `'${type}'`,
    contract,
    tokenId: `${tokenId}::numeric`,
    rights,
  };
  const [relation, isFound] =
    moment === "now"
      ? [active(version), isOfScope(end, version, { row: "d.", scope: asked })]
      : [
          log,
          `${isOfScope(end, "log", { row: "d.", scope: asked })} and d.active and not d.was_active and d.block_number <= q.block`,
        ];
  // Of a page, the part with this scope: all of it, what is after the last page, or nothing.
  const after = `
    case when q.after_breadth < ${breadth} then -1 when q.after_breadth = ${breadth} then q.after_block end,
    case when q.after_breadth < ${breadth} then -1 when q.after_breadth = ${breadth} then q.after_log end`;
  return `(
    select d.${otherEnd(end)} as other, ${breadth} as breadth, d.block_number, d.log_index
    from ${relation} d
    where ${isFound} and (d.block_number, d.log_index) > (${after})
      and ${isAsked} and ${condition}
    order by d.block_number, d.log_index limit q.rows)`;
};

/** The rights that satisfy a check, as SQL expressions. */
const RIGHTS = {
  v1: [`'${FULL_RIGHTS}'`],
  v2: [`'${FULL_RIGHTS}'`, `nullif(q.rights, '${FULL_RIGHTS}')`],
};

/**
 * Selects candidates: a wallet at the other end for each delegation that may satisfy the check, in the order of pages.
 * It reads the question from a row `q`: chain_id, wallet, contract, token_id, rights, for a past block block, the end of
 * the last page (after_breadth, after_block, after_log), and rows, how many to select.
 */
export const selectCandidates = (source: Source, end: End, asked: readonly AskedRegistry[]): string => {
  const ofScopes = asked.flatMap(({ version, scopes }) =>
    scopes.flatMap((scope) => RIGHTS[version].map((rights) => selectOfScope(source, { end, version, scope, rights }))),
  );
  return `select * from (${ofScopes.join(" union all ")}) candidate order by breadth, ${POSITION} limit q.rows`;
};

/** The columns of a grant for each registry: v1 has full rights only, and no amounts. */
const GRANT_COLUMNS = {
  v1: `'v1' as registry, d.type, d.contract, d.token_id, '${FULL_RIGHTS}'::text as rights, 0::numeric as amount`,
  v2: "'v2' as registry, d.type, d.contract, d.token_id, d.rights, d.amount",
};

const selectGrantsOf = (source: Source, { version, scopes, gives }: AskedRegistry): string => {
  const { active, log, moment, condition } = source;
  const from = (scope: ScopeIf) =>
    moment === "now"
      ? `${fromActive(active(version), version)(scope)} and ${condition}`
      : fromLog(log, version, condition)(scope);
  const event =
    moment === "now"
      ? "d.block_number, d.log_index, d.block_timestamp, d.transaction_hash"
      : "d.made_block as block_number, d.made_log_index as log_index, null::bigint as block_timestamp, null as transaction_hash";
  return scopes
    .map(
      (scope) => `
    select ${GRANT_COLUMNS[version]}, ${event}, ${scope.breadth} as breadth, (${gives(scope)})::numeric as gives
    ${from(scope)} and ${scope.condition ?? "true"}`,
    )
    .join(" union all ");
};

/**
 * Selects all delegations that satisfy a check, each on its own, with the event that made it, its rank (`breadth`, 0 is
 * the broadest) and the balance that it grants (`gives`). It reads the question from a row `q`, as a check does.
 */
export const selectGrants = (source: Source, asked: readonly AskedRegistry[]): string => {
  const grants = asked.map((registry) => selectGrantsOf(source, registry)).join(" union all ");
  if (source.moment === "now") return grants;
  // The latest change of a delegation is not the event that made it.
  return `
    select granted.registry, granted.type, granted.contract, granted.token_id, granted.rights, granted.amount,
      granted.block_number, granted.log_index, made.block_timestamp, made.transaction_hash, granted.breadth, granted.gives
    from (${grants}) granted
    -- The limit keeps Postgres from reading the whole log for a hash join.
    cross join lateral (
      select change.block_timestamp, change.transaction_hash from ${source.log} change
      where change.chain_id = q.chain_id and change.block_number = granted.block_number
        and change.log_index = granted.log_index and change.ordinal = 0 limit 1
    ) made`;
};
