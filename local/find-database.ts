import { join } from "node:path";
import { SANDBOX_DATA, START_DATA } from "./data-folders.ts";
import { findEmbeddedPostgres } from "./embedded-postgres.ts";

/** Finds a command's database: the configured one, or that of a running `npm start` or `npm run dev`. */
export const findDatabase = async (setting: string | null): Promise<string> => {
  const url =
    setting ??
    (await findEmbeddedPostgres(join(START_DATA, "postgres"))) ??
    (await findEmbeddedPostgres(join(SANDBOX_DATA, "postgres")));
  if (url !== null) return url;
  throw new Error("There is no database: set DATABASE_URL, or run npm start or npm run dev, which start their own.");
};
