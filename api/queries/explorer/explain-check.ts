import { type Check, checkRule, grantsOf } from "../../../registry/check-rule.ts";
import type { RegistryVersion } from "../../../registry/networks.ts";
import type { Database } from "../../database.ts";
import type { Question } from "../check-delegation.ts";
import { SOURCES } from "./list-active.ts";
import { type ExplorerRow, type Found, readFound, withBlock } from "./rows.ts";

/** A delegation by which a check is satisfied, and the balance that it gives; null where none is asked for. */
export type Grant = ExplorerRow & { gives: string | null };

/** In the words of the check: true, false, or the digits of a balance. */
type Explanation = Found<Grant> & { answer: string };

const explainStatement = (schema: string, version: RegistryVersion, check: Check): string => {
  const relation = SOURCES[version](schema);
  return withBlock(schema, {
    question: `(values ($1::bigint, $2::text, $3::text, $4::text, $5::numeric, $6::text))
      as q (chain_id, vault, delegate, contract, token_id, rights)
      cross join lateral (select (${checkRule(relation, version, check)})::text as value) answer`,
    rows: grantsOf(relation, version, check),
    others: ["answer.value", "found.gives"],
    order: "breadth, block_number, log_index",
  });
};

/** The answer to a check, by the rule that the check itself is answered by, and every delegation that satisfies it. */
export const explainCheck = async (
  database: Database,
  schema: string,
  version: RegistryVersion,
  check: Check,
  { chainId, vault, delegate, contract, tokenId, rights }: Question,
): Promise<Explanation> => {
  const rows = await database.queryTexts({
    name: `${schema} ${version} explain ${check}`,
    text: explainStatement(schema, version, check),
    values: [chainId, vault, delegate, contract, tokenId, rights],
  });
  const found = readFound(rows, ([, gives = null], delegation) => ({ ...delegation, gives }));
  const [, , , answer] = rows[0] ?? [];
  return { ...found, answer: String(answer) };
};
