import type pg from "pg";
import { createSampleDatabase, FRESH_FOR_A_DAY, startTestApi } from "./api.ts";
import { readServedSchema } from "./index-copy.ts";
import { connectClient } from "./setup.ts";

/** Starts an API over samples whose index a test has changed. `start` starts another one. */
export const startChangedSamples = async (
  change: (database: pg.Client, schema: string) => Promise<unknown>,
  env: NodeJS.ProcessEnv = FRESH_FOR_A_DAY,
) => {
  const databaseUrl = await createSampleDatabase();
  const database = await connectClient(databaseUrl);
  // Without Ponder's triggers.
  await database.query("set session_replication_role = replica");
  const schema = await readServedSchema(database);
  await change(database, schema);
  const start = () => startTestApi({ databaseUrl, env });
  return { database, schema, start, api: await start() };
};
