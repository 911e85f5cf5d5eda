import pg from "pg";
import type { Address } from "viem";
import type { Database } from "../../database.ts";
import { notIndexed } from "../../problem.ts";
import { COLUMNS, type ExplorerRow, type Found, type Place, readFound, whileServed, withBlock } from "./rows.ts";

export type ExplorerChange = ExplorerRow & {
  ordinal: string;
  kind: "made" | "changed" | "revoked";
  event: string;
};

const UNDEFINED_COLUMN = "42703";

const OTHERS = ["ordinal", "active", "was_active", "event"];

const ORDER = "block_number desc, log_index desc, ordinal desc";

/** A page of the changes with the wallet at one end: a walk along that end's index, from the place on. */
const page = (schema: string, end: "vault" | "delegate"): string => `
  (select ${OTHERS.join(", ")}, ${COLUMNS} from "${schema}".delegation_change
   where chain_id = $1 and ${end} = $2 and (block_number, log_index, ordinal) < ($3::bigint, $4::int, $5::int)
   order by ${ORDER}
   limit $6::int)`;

/** What a wallet did to itself is at both ends, and told once: "union" leaves out what is there already. */
export const historyStatement = (schema: string): string =>
  withBlock(schema, {
    question: "(values ($1::bigint)) as q (chain_id)",
    rows: `
      select * from (${page(schema, "vault")} union ${page(schema, "delegate")}) change
      where ${whileServed(schema)}
      order by ${ORDER}
      limit $6::int`,
    others: OTHERS,
    order: ORDER,
  });

/** Every change of delegations from or to a wallet, in both registries, newest first. */
export const readHistory = async (
  database: Database,
  { schema, chainId, wallet }: { schema: string; chainId: number; wallet: Address },
  limit: number,
  after: Place,
): Promise<Found<ExplorerChange>> => {
  const rows = await database
    .queryList({
      name: `${schema} explorer history`,
      text: historyStatement(schema),
      values: [chainId, wallet, after.blockNumber, after.logIndex, after.ordinal, limit],
    })
    .catch((error) => {
      if (!(error instanceof pg.DatabaseError) || error.code !== UNDEFINED_COLUMN) throw error;
      throw notIndexed(
        "The index that is served was made by an older version, and does not tell: a new one is needed.",
      );
    });
  return readFound(rows, ([ordinal, active, wasActive, event], delegation) => ({
    ...delegation,
    ordinal: String(ordinal),
    kind: active !== "t" ? "revoked" : wasActive === "t" ? "changed" : "made",
    event: String(event),
  }));
};
