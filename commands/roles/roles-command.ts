import { describeError } from "../../process/program.ts";
import { parseAll, parseDatabaseUrl } from "../../process/settings.ts";
import { createAnalyst } from "./create-analyst.ts";
import { createRoles } from "./create-roles.ts";
import { parseAnalystSettings, parseRolesSettings } from "./settings.ts";

const USAGE = `npm run roles [-- analyst <name>]

  (nothing)         creates or updates the roles of indexer, API and analysts, with the passwords of the settings
  analyst <name>    creates a login for one analyst, or gives it another password, and prints the password once`;

type Output = {
  /** Prints a result for programs, to stdout. */
  print: (text: string) => void;
  /** Prints a message for people, to stderr. */
  say: (text: string) => void;
};

/**
 * Creates a role each for the indexer, the API and analysts, or a login for one analyst: `npm run roles`.
 * @returns the exit code
 */
export const rolesCommand = async (
  [command, name, ...others]: readonly string[],
  environment: NodeJS.ProcessEnv,
  output: Output,
): Promise<number> => {
  try {
    if (command === undefined) await updateRoles(environment, output);
    else if (command === "analyst" && name && others.length === 0) await addAnalyst(name, environment, output);
    else throw new Error(USAGE);
    return 0;
  } catch (error) {
    output.say(describeError(error));
    return 1;
  }
};

const updateRoles = async (environment: NodeJS.ProcessEnv, { say }: Output): Promise<void> => {
  const [databaseUrl, settings] = parseAll(
    () => parseDatabaseUrl(environment),
    () => parseRolesSettings(environment),
  );
  say(describeDatabase(databaseUrl));
  const { transferred, openDatabases } = await createRoles(databaseUrl, settings);
  const { indexer, api, analyst } = settings;
  if (transferred > 0) {
    say(`${transferred} schemas, tables and other objects were handed over to ${indexer.name} and ${api.name}.`);
  }
  for (const database of openDatabases) {
    say(
      `Every role can still connect to the database "${database}", and an analyst could fill the disk there. Its owner or a superuser can stop that: revoke connect, temporary on database ${database} from public`,
    );
  }
  say(`${indexer.name} indexes, ${api.name} answers, ${analyst.name} reads the schema "analytics".`);
};

const addAnalyst = async (name: string, environment: NodeJS.ProcessEnv, { print, say }: Output): Promise<void> => {
  const [databaseUrl, settings] = parseAll(
    () => parseDatabaseUrl(environment),
    () => parseAnalystSettings(environment, name),
  );
  say(describeDatabase(databaseUrl));
  const password = await createAnalyst(databaseUrl, settings);
  say(`${name} reads the schema "analytics". Its password is shown only once and stored nowhere:\n`);
  print(password);
};

const describeDatabase = (databaseUrl: string): string => {
  const { host, pathname } = new URL(databaseUrl);
  return `Database ${host}${pathname}`;
};
