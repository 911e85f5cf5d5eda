import { describeError } from "../../process/program.ts";
import { parseAll, parseDatabaseUrl } from "../../process/settings.ts";
import { createRoles } from "./create-roles.ts";
import { parseRolesSettings } from "./settings.ts";

/**
 * Creates a role each for the indexer, the API and analysts: `npm run roles`.
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
    const { transferred } = await createRoles(databaseUrl, settings);
    const { indexer, api, analyst } = settings;
    if (transferred > 0) {
      say(`${transferred} schemas, tables and other objects were handed over to ${indexer.name} and ${api.name}.`);
    }
    say(`${indexer.name} indexes, ${api.name} answers, ${analyst.name} reads the schema "analytics".`);
    return 0;
  } catch (error) {
    say(describeError(error));
    return 1;
  }
};
