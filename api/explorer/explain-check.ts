import { sql } from "drizzle-orm";
import { type Check, checkRule, fromActive, selectGrants } from "../../registry/check-rule.ts";
import { FULL_RIGHTS } from "../../registry/delegation.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import type { Database } from "../database/database.ts";
import type { FreshnessColumns } from "../database/freshness.ts";
import { compileStatement, memoizeByDatabase } from "../database/statement.ts";
import type { CheckKind, CheckQuestion } from "../delegations/check-delegation.ts";
import { type ExplorerResult, type ExplorerRow, FOUND, readResult, selectWithBlock } from "./explorer-rows.ts";

/** A delegation that satisfies a check, and the balance that it gives; null for a check without a balance. */
export type Grant = ExplorerRow & { gives: string | null };

/** `answer` is the check's response: true, false, or the digits of a balance. */
type Explanation = ExplorerResult<Grant> & { answer: string };

/** Relations with the same columns for both registries: v1 has full rights only, and no amounts. */
const RELATIONS = {
  v1: (schema: string) =>
    `(select *, 'v1' as registry, '${FULL_RIGHTS}'::text as rights, 0::numeric as amount from "${schema}".delegation_v1)`,
  v2: (schema: string) => `(select *, 'v2' as registry from "${schema}".delegation_v2)`,
} as const;

const value = sql.placeholder;

const explainStatement = (database: Database, schema: string, version: RegistryVersion, check: Check) => {
  const from = fromActive(RELATIONS[version](schema), version);
  const query = selectWithBlock(database, schema, {
    question: sql`
      (values (${value("chainId")}::bigint, ${value("vault")}::text, ${value("delegate")}::text,
        ${value("contract")}::text, ${value("tokenId")}::numeric, ${value("rights")}::text))
      as q (chain_id, vault, delegate, contract, token_id, rights)
      cross join lateral (select (${sql.raw(checkRule(from, check))})::text as value) answer`,
    found: sql.raw(selectGrants(from, check)),
    columns: { ...FOUND, gives: sql`found.gives`, answer: sql`answer.value` },
    order: sql`found.breadth, found.block_number, found.log_index`,
  });
  return compileStatement<FreshnessColumns & Grant & { answer: string }>(
    `${schema} ${version} explain ${check}`,
    query,
  );
};

const findExplainStatement = memoizeByDatabase(explainStatement);

/** Answers a check by the same rule as the check itself, with every delegation that satisfies it. */
export const explainCheck = async (
  database: Database,
  { schema, version, check }: CheckKind,
  question: CheckQuestion,
): Promise<Explanation> => {
  const rows = await database.read("checks", findExplainStatement(database, schema, version, check), question);
  return { ...readResult(rows), answer: String(rows[0]?.answer) };
};
