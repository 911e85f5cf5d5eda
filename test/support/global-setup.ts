import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import type { TestProject } from "vitest/node";
import { startEmbeddedPostgres } from "../../local/embedded-postgres.ts";
import { loadAssets } from "../../web/build.ts";

declare module "vitest" {
  export interface ProvidedContext {
    postgresUrl: string;
  }
}

/** Starts one Postgres server for all tests, each of which creates its own database, and builds the pages once. */
export default async ({ provide }: TestProject) => {
  await loadAssets();
  const directory = await mkdtemp(join(tmpdir(), "delegation-registry-test-"));
  // Postgres does not run as root, and its user needs access.
  await chmod(directory, 0o755);
  const postgres = await startEmbeddedPostgres({ directory: join(directory, "postgres"), disposable: true });
  // With autovacuum, some copies of the sample database would have statistics and others none.
  const client = new pg.Client(postgres.url);
  await client.connect();
  await client.query("alter system set autovacuum = off");
  await client.query("select pg_reload_conf()");
  await client.end();
  provide("postgresUrl", postgres.url);
  return async () => {
    await postgres.stop();
    await rm(directory, { recursive: true, force: true });
  };
};
