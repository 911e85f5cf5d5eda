import { parseArgs } from "node:util";
import { pino } from "pino";
import { Database } from "../../api/database/database.ts";
import { migrate } from "../../api/database/migrate.ts";
import { generateStoredKey, hashKey } from "../../api/keys/api-key.ts";
import { insertKey, type KeyInfo, listKeys, readUsage, revokeKey, searchKeys } from "../../api/keys/api-keys.ts";
import { blockOwner, unblockOwner } from "../../api/keys/blocked-owners.ts";
import { keyName } from "../../api/keys/key-name.ts";
import { findDatabase } from "../../local/find-database.ts";
import { describeError } from "../../process/program.ts";
import { parseOptionalDatabaseUrl } from "../../process/settings.ts";
import { formatMinute, type Output, printTable } from "../output.ts";

const USAGE = `npm run keys -- <command>

  create --name <name>         creates a key and prints it once
  list                         lists all keys with their request counts
  usage [<key>] [--days 30]    lists the requests of each day (UTC)
  revoke <key>                 revokes a key, everywhere within a minute
  block <owner>                refuses all keys of an account, present and future ones, within a minute
  unblock <owner>              accepts them again

<key> is a prefix or a name as in "list", or the key itself. <owner> is an account as in "list".
The database is DATABASE_URL, or that of a running "npm start" or "npm run dev".`;

const create = async (database: Database, name: string, { print, say }: Output): Promise<void> => {
  const key = await generateStoredKey((stored) => insertKey(database, { ...stored, name }));
  if (key === null) throw new Error("No key could be made: other keys have the prefixes of all attempts. Try again.");
  say(`The key for "${name}". It is shown only once and stored nowhere:\n`);
  print(key);
  say('\nSend it in the header X-API-KEY, on v2. "npm run keys -- list" shows its prefix.');
};

const list = async (database: Database, { print, say }: Output): Promise<void> => {
  const keys = await listKeys(database);
  if (keys.length === 0) {
    say('There are no keys. "npm run keys -- create --name <name>" creates one.');
    return;
  }
  printTable(
    print,
    ["NAME", "PREFIX", "OWNER", "CREATED", "LAST USED", "REQUESTS", "STATE"],
    keys.map(({ name, prefix, owner, createdAt, lastUsedAt, requests, revokedAt, isBlocked }) => [
      name,
      prefix,
      owner ?? "operator",
      formatMinute(createdAt),
      lastUsedAt ? formatMinute(lastUsedAt) : "never",
      String(requests),
      revokedAt ? `revoked ${formatMinute(revokedAt)}` : isBlocked ? "blocked" : "active",
    ]),
  );
};

const block = async (database: Database, owner: string, { say }: Output): Promise<void> => {
  await blockOwner(database, owner);
  say(`${owner} is blocked. Within a minute no API process accepts its keys, and it cannot create others.`);
};

const unblock = async (database: Database, owner: string, { say }: Output): Promise<void> => {
  const wasBlocked = await unblockOwner(database, owner);
  say(wasBlocked ? `${owner} is not blocked any more. Its keys work within a minute.` : `${owner} was not blocked.`);
};

/** An account of the developer page: an address, for a contract with its chain. */
const OWNER = /^(eip155:[1-9]\d*:)?0x[0-9a-f]{40}$/;

const usage = async (
  database: Database,
  text: string | undefined,
  days: number,
  { print, say }: Output,
): Promise<void> => {
  const key = text === undefined ? null : await findKey(database, text);
  const rows = await readUsage(database, { days, keyId: key?.id ?? null });
  if (rows.length === 0) say(`No requests with ${key ? `the key ${key.prefix}` : "a key"} in the last ${days} days.`);
  else {
    printTable(
      print,
      ["DAY", "NAME", "PREFIX", "REQUESTS"],
      rows.map(({ day, name, prefix, requests }) => [day, name, prefix, String(requests)]),
    );
  }
};

const revoke = async (database: Database, text: string, { say }: Output): Promise<void> => {
  const { id, name, prefix, revokedAt } = await findKey(database, text);
  if (revokedAt) {
    say(`The key ${prefix} of "${name}" was already revoked at ${formatMinute(revokedAt)}.`);
    return;
  }
  await revokeKey(database, id);
  say(`The key ${prefix} of "${name}" is revoked. Within a minute no API process accepts it.`);
};

/** Finds the key that a prefix, a name or a key identifies. */
const findKey = async (database: Database, text: string): Promise<KeyInfo> => {
  const found = await searchKeys(database, text, hashKey(text));
  // Prefer active keys if several have the same name.
  const candidates = found.length > 1 ? found.filter(({ revokedAt }) => revokedAt === null) : found;
  const [key, ...others] = candidates.length > 0 ? candidates : found;
  if (!key) throw new Error('There is no such key. "npm run keys -- list" lists all keys.');
  if (others.length > 0) {
    const prefixes = [key, ...others].map(({ prefix }) => prefix).join(", ");
    throw new Error(`Several keys have this name: ${prefixes}. Use one of these prefixes.`);
  }
  return key;
};

type Command = (database: Database, output: Output) => Promise<void>;

/** Parses the arguments; null if they are invalid. */
const parseCommand = ([command, ...args]: string[]): Command | null => {
  switch (command) {
    case "create": {
      const { name } = parseArgs({ args, options: { name: { type: "string" } } }).values;
      if (!name?.trim()) break;
      const parsed = keyName.safeParse(name);
      if (!parsed.success) throw new Error(`The name ${parsed.error.issues[0]?.message}.`);
      return (database, output) => create(database, parsed.data, output);
    }
    case "list":
      parseArgs({ args });
      return list;
    case "usage": {
      const { values, positionals } = parseArgs({
        args,
        allowPositionals: true,
        options: { days: { type: "string" } },
      });
      const { days = "30" } = values;
      const [key, ...others] = positionals;
      if (/^[1-9]\d{0,4}$/.test(days) && others.length === 0) {
        return (database, output) => usage(database, key, Number(days), output);
      }
      break;
    }
    case "revoke": {
      const [key, ...others] = parseArgs({ args, allowPositionals: true }).positionals;
      if (key && others.length === 0) return (database, output) => revoke(database, key, output);
      break;
    }
    case "block":
    case "unblock": {
      const [text = "", ...others] = parseArgs({ args, allowPositionals: true }).positionals;
      const owner = text.toLowerCase();
      const change = command === "block" ? block : unblock;
      if (OWNER.test(owner) && others.length === 0) return (database, output) => change(database, owner, output);
    }
  }
  return null;
};

/** Parses the arguments. Throws the usage if they are invalid, without repeating them: one may be a key. */
const requireCommand = (args: string[]): Command => {
  try {
    const command = parseCommand(args);
    if (command) return command;
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
  }
  throw new Error(USAGE);
};

/**
 * Creates, lists and revokes API keys, and blocks their owners: `npm run keys`.
 * @returns the exit code
 */
export const keysCommand = async (
  args: string[],
  { environment, ...output }: Output & { environment: NodeJS.ProcessEnv },
): Promise<number> => {
  try {
    const run = requireCommand(args);
    const url = await findDatabase(parseOptionalDatabaseUrl(environment));
    const { host, pathname } = new URL(url);
    output.say(`Database ${host}${pathname}`);
    await migrate(url);
    const database = new Database(url, pino({ enabled: false }));
    await run(database, output).finally(() => database.close());
    return 0;
  } catch (error) {
    output.say(describeError(error));
    return 1;
  }
};
