import { join } from "node:path";
import { SANDBOX_DATA, START_DATA } from "./data-folders.ts";
import { findEmbeddedPostgres } from "./embedded-postgres.ts";
import { parseOptionalDatabaseUrl } from "./settings.ts";

/** The database that a command is about: DATABASE_URL, or that of whatever runs on this machine. */
export const findDatabase = async (environment: NodeJS.ProcessEnv): Promise<string> => {
  const url =
    parseOptionalDatabaseUrl(environment) ??
    (await findEmbeddedPostgres(join(START_DATA, "postgres"))) ??
    (await findEmbeddedPostgres(join(SANDBOX_DATA, "postgres")));
  if (url !== null) return url;
  throw new Error("There is no database: set DATABASE_URL, or have npm start or npm run dev running, with their own.");
};
