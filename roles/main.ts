import { join } from "node:path";
import { loadEnvFiles, runUntilStopped } from "../stack/program.ts";
import { parseAll, parseDatabaseUrl } from "../stack/settings.ts";
import { createRoles } from "./create-roles.ts";
import { parseRolesSettings } from "./settings.ts";

// npm run roles: a role each for the indexer, the API and analysts.

await runUntilStopped(async () => {
  loadEnvFiles(join(import.meta.dirname, ".."));
  const [databaseUrl, settings] = parseAll(
    () => parseDatabaseUrl(process.env),
    () => parseRolesSettings(process.env),
  );
  const { host, pathname } = new URL(databaseUrl);
  console.error(`Database ${host}${pathname}`);
  const { adopted } = await createRoles(databaseUrl, settings);
  const { indexer, api, analyst } = settings;
  if (adopted > 0)
    console.error(`${adopted} schemas, tables and the like were handed over to ${indexer.name} and ${api.name}.`);
  console.error(`${indexer.name} indexes, ${api.name} answers, ${analyst.name} reads the schema "analytics".`);
});
