import { parseArgs } from "node:util";
import { pino } from "pino";
import { findDatabase } from "../../stack/find-database.ts";
import { describeError } from "../../stack/program.ts";
import { parseOptionalDatabaseUrl } from "../../stack/settings.ts";
import { Database } from "../database.ts";
import { migrate } from "../migrate.ts";
import { insertKey, type KeyInfo, listKeys, readUsage, revokeKey, searchKeys } from "../queries/api-keys.ts";
import { generateKey, hashKey, prefixOf } from "./api-key.ts";

const USAGE = `npm run keys -- <command>

  create --name <name>         makes a key and prints it, once
  list                         shows all keys, and how often they were used
  usage [<key>] [--days 30]    shows how often keys were used on each day (UTC)
  revoke <key>                 ends a key, everywhere within a minute

<key> is what "list" shows, a prefix or a name; or the key itself.
The database is DATABASE_URL, or that of a running "npm start" or "npm run dev".`;

type Output = {
  /** Prints what programs read. */
  print: (text: string) => void;
  /** Prints a note, for people. */
  say: (text: string) => void;
};

const create = async (database: Database, name: string, { print, say }: Output): Promise<void> => {
  let key: string;
  do key = generateKey();
  while (!(await insertKey(database, { name, prefix: prefixOf(key), hash: hashKey(key) })));
  say(`The key for "${name}". It is shown this once, and stored nowhere:\n`);
  print(key);
  say('\nSend it in the header X-API-KEY, on v2. "npm run keys -- list" knows it by its beginning.');
};

const list = async (database: Database, { print, say }: Output): Promise<void> => {
  const keys = await listKeys(database);
  if (keys.length === 0) {
    say('There are no keys. "npm run keys -- create --name <name>" makes one.');
    return;
  }
  printTable(
    print,
    ["NAME", "PREFIX", "CREATED", "LAST USED", "REQUESTS", "STATE"],
    keys.map(({ name, prefix, createdAt, lastUsedAt, requests, revokedAt }) => [
      name,
      prefix,
      minute(createdAt),
      lastUsedAt ? minute(lastUsedAt) : "never",
      String(requests),
      revokedAt ? `revoked ${minute(revokedAt)}` : "active",
    ]),
  );
};

const usage = async (
  database: Database,
  text: string | undefined,
  days: number,
  { print, say }: Output,
): Promise<void> => {
  const key = text === undefined ? null : await findOne(database, text);
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
  const { id, name, prefix, revokedAt } = await findOne(database, text);
  if (revokedAt) {
    say(`The key ${prefix} of "${name}" was revoked at ${minute(revokedAt)} already.`);
    return;
  }
  await revokeKey(database, id);
  say(`The key ${prefix} of "${name}" is revoked. Within a minute no API process takes it any more.`);
};

/** The one key that is meant. */
const findOne = async (database: Database, text: string): Promise<KeyInfo> => {
  const found = await searchKeys(database, text, hashKey(text));
  // Of several with one name, those that still count are meant.
  const candidates = found.length > 1 ? found.filter(({ revokedAt }) => revokedAt === null) : found;
  const [key, ...others] = candidates.length > 0 ? candidates : found;
  if (!key) throw new Error('There is no such key. "npm run keys -- list" shows all.');
  if (others.length > 0) {
    const prefixes = [key, ...others].map(({ prefix }) => prefix).join(", ");
    throw new Error(`Several keys have this name: ${prefixes}. Name one of these.`);
  }
  return key;
};

const minute = (date: Date) => date.toISOString().slice(0, 16).replace("T", " ");

const printTable = (print: Output["print"], head: readonly string[], rows: readonly (readonly string[])[]): void => {
  const all = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  for (const row of all) {
    print(
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    );
  }
};

type Command = (database: Database, output: Output) => Promise<void>;

/** What the arguments ask for; null where they make no sense. */
const parseCommand = ([command, ...args]: string[]): Command | null => {
  switch (command) {
    case "create": {
      const { name } = parseArgs({ args, options: { name: { type: "string" } } }).values;
      if (name?.trim()) return (database, output) => create(database, name.trim(), output);
      break;
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
    }
  }
  return null;
};

/** The same, with what makes sense for an error. It does not repeat the arguments: one may be a key. */
const readCommand = (args: string[]): Command => {
  try {
    const command = parseCommand(args);
    if (command) return command;
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
  }
  throw new Error(USAGE);
};

/**
 * Makes, shows and revokes API keys: `npm run keys`.
 * @returns the exit code
 */
export const keysCommand = async (
  args: string[],
  { environment, ...output }: Output & { environment: NodeJS.ProcessEnv },
): Promise<number> => {
  try {
    const run = readCommand(args);
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
