import { describeError } from "../stack/program.ts";
import { parseAll, parseDatabaseUrl } from "../stack/settings.ts";
import { createRoles } from "./create-roles.ts";
import { parseRolesSettings } from "./settings.ts";

/**
 * Makes a role each for the indexer, the API and analysts: `npm run roles`.
 * @returns the exit code
 */
export const rolesCommand = async (environment: NodeJS.ProcessEnv, say: (text: string) => void): Promise<number> => {
  try {
    const [databaseUrl, settings] = parseAll(
      () => parseDatabaseUrl(environment),
      () => parseRolesSettings(environment),
    );
    const { host, pathname } = new URL(databaseUrl);
    say(`Database ${host}${pathname}`);
    const { adopted } = await createRoles(databaseUrl, settings);
    const { indexer, api, analyst } = settings;
    if (adopted > 0)
      say(`${adopted} schemas, tables and the like were handed over to ${indexer.name} and ${api.name}.`);
    say(`${indexer.name} indexes, ${api.name} answers, ${analyst.name} reads the schema "analytics".`);
    return 0;
  } catch (error) {
    say(describeError(error));
    return 1;
  }
};
