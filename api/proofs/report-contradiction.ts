import { sql } from "drizzle-orm";
import type { Address } from "viem";
import type { Database } from "../database/database.ts";
import { compileStatement } from "../database/statement.ts";
import { contradicted } from "../database/tables.ts";

/** Wallets of a network that are kept: one that is wrong about more is found to differ by the first ones. */
const MAX_OF_NETWORK = 1_000;

const [chainId, wallet, block] = ["chainId", "wallet", "block"].map((name) => sql.placeholder(name));

const REPORT = compileStatement<object>(
  "report-contradiction",
  sql`with forgotten as (delete from ${contradicted} where found_at < clock_timestamp() - interval '1 day' and wallet <> ${wallet}::text)
    insert into ${contradicted} (chain_id, wallet, block) select ${chainId}::bigint, ${wallet}::text, ${block}::bigint
    where (select count(*) from ${contradicted} where chain_id = ${chainId}::bigint and wallet <> ${wallet}::text) < ${sql.raw(`${MAX_OF_NETWORK}`)}
    on conflict (chain_id, wallet) do update set found_at = clock_timestamp(), block = excluded.block`,
);

/** Tells the indexer to compare a wallet with the registries next: the API may not say that an index is wrong. */
export const reportContradiction = async (
  database: Database,
  reported: { chainId: number; wallet: Address; block: string },
): Promise<void> => {
  await database.read("checks", REPORT, reported);
};
