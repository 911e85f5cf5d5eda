import { findEmbeddedPostgres } from "../../stack/embedded-postgres.ts";
import type { Queries } from "./index-state.ts";
import { until } from "./until.ts";

/** Ends an embedded Postgres as when its machine goes down: connections break, nothing is written down. */
export const crashPostgres = async (client: Queries, directory: string): Promise<void> => {
  const { rows } = await client.query("select split_part(pg_read_file('postmaster.pid'), e'\\n', 1)::int as pid");
  process.kill(rows[0].pid, "SIGQUIT");
  await until("Postgres has ended", async () => (await findEmbeddedPostgres(directory)) === null, 30);
};
