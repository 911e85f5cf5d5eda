import { lt, sql } from "drizzle-orm";
import type { Address } from "viem";
import type { Database } from "../database/database.ts";
import { memoizeByDatabase } from "../database/memoize.ts";
import { contradicted } from "../database/tables.ts";

const now = sql`clock_timestamp()`;

const prepared = memoizeByDatabase(({ db }) => ({
  report: db
    .insert(contradicted)
    .values({ chainId: sql.placeholder("chainId"), wallet: sql.placeholder("wallet") })
    .onConflictDoUpdate({ target: [contradicted.chainId, contradicted.wallet], set: { foundAt: now } })
    .prepare("report contradicted"),
  forget: db
    .delete(contradicted)
    .where(lt(contradicted.foundAt, sql`${now} - interval '1 day'`))
    .prepare("forget contradicted"),
}));

/** Tells the indexer to compare a wallet with the registries next: the API may not say that an index is wrong. */
export const reportContradiction = async (database: Database, chainId: number, wallet: Address): Promise<void> => {
  const { report, forget } = prepared(database);
  await database.run(() => report.execute({ chainId, wallet }));
  await database.run(() => forget.execute());
};
