import { sql } from "drizzle-orm";
import { type Check, checkRule, grantsOf } from "../../../registry/check-rule.ts";
import { FULL_RIGHTS } from "../../../registry/delegation.ts";
import type { RegistryVersion } from "../../../registry/networks.ts";
import { compile, type Database, preparedFor } from "../../database.ts";
import type { Question } from "../check-delegation.ts";
import type { FreshnessColumns } from "../freshness.ts";
import { type ExplorerRow, FOUND, type Found, readFound, withBlock } from "./rows.ts";

/** A delegation by which a check is satisfied, and the balance that it gives; null where none is asked for. */
export type Grant = ExplorerRow & { gives: string | null };

/** In the words of the check: true, false, or the digits of a balance. */
type Explanation = Found<Grant> & { answer: string };

/** What both registries are read with: v1 knows full rights only, and no amounts. */
const SOURCES = {
  v1: (schema: string) =>
    `(select *, 'v1' as registry, '${FULL_RIGHTS}'::text as rights, 0::numeric as amount from "${schema}".delegation_v1)`,
  v2: (schema: string) => `(select *, 'v2' as registry from "${schema}".delegation_v2)`,
} as const;

const value = sql.placeholder;

const explainStatement = (database: Database, schema: string, version: RegistryVersion, check: Check) => {
  const relation = SOURCES[version](schema);
  const query = withBlock(database, schema, {
    question: sql`
      (values (${value("chainId")}::bigint, ${value("vault")}::text, ${value("delegate")}::text,
        ${value("contract")}::text, ${value("tokenId")}::numeric, ${value("rights")}::text))
      as q (chain_id, vault, delegate, contract, token_id, rights)
      cross join lateral (select (${sql.raw(checkRule(relation, version, check))})::text as value) answer`,
    found: sql.raw(grantsOf(relation, version, check)),
    columns: { ...FOUND, gives: sql`found.gives`, answer: sql`answer.value` },
    order: sql`found.breadth, found.block_number, found.log_index`,
  });
  return compile<FreshnessColumns & Grant & { answer: string }>(`${schema} ${version} explain ${check}`, query);
};

const statementFor = preparedFor(explainStatement);

/** The answer to a check, by the rule that the check itself is answered by, and every delegation that satisfies it. */
export const explainCheck = async (
  database: Database,
  schema: string,
  version: RegistryVersion,
  check: Check,
  question: Question,
): Promise<Explanation> => {
  const rows = await database.read("checks", statementFor(database, schema, version, check), question);
  return { ...readFound(rows), answer: String(rows[0]?.answer) };
};
