import { findEmbeddedPostgres } from "../../local/embedded-postgres.ts";
import type { Queries } from "./index-state.ts";
import { waitUntil } from "./setup.ts";

/** Crashes an embedded Postgres: connections break and nothing is flushed. */
export const crashPostgres = async (client: Queries, directory: string): Promise<void> => {
  const { rows } = await client.query("select split_part(pg_read_file('postmaster.pid'), e'\\n', 1)::int as pid");
  process.kill(rows[0].pid, "SIGQUIT");
  await waitUntil("Postgres has ended", async () => (await findEmbeddedPostgres(directory)) === null, 30);
};
