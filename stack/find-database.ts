import { join } from "node:path";
import { SANDBOX_DATA, START_DATA } from "./data-folders.ts";
import { findEmbeddedPostgres } from "./embedded-postgres.ts";

/** The database that a command is about: the one that is set, or that of a running `npm start` or `npm run dev`. */
export const findDatabase = async (setting: string | null): Promise<string> => {
  const url =
    setting ??
    (await findEmbeddedPostgres(join(START_DATA, "postgres"))) ??
    (await findEmbeddedPostgres(join(SANDBOX_DATA, "postgres")));
  if (url !== null) return url;
  throw new Error("There is no database: set DATABASE_URL, or have npm start or npm run dev running, with their own.");
};
