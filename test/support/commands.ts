import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { expect, onTestFinished } from "vitest";
import { exportCommand } from "../../commands/export/export-command.ts";
import { keysCommand } from "../../commands/keys/keys-command.ts";
import { rolesCommand } from "../../commands/roles/roles-command.ts";
import { startNode } from "../../process/child.ts";
import { HOT, VAULT } from "./api.ts";
import { readServedSchema } from "./index-copy.ts";
import { captureOutput, ROOT } from "./run.ts";
import { generateName } from "./setup.ts";

// npm run keys.

type Outcome = { code: number; stdout: string; stderr: string };

/** Runs `npm run keys` in this process. */
export const runKeys = async (args: string[], databaseUrl: string): Promise<Outcome> => {
  const [stdout, stderr]: [string[], string[]] = [[], []];
  const code = await keysCommand(args, {
    environment: { DATABASE_URL: databaseUrl },
    print: (text) => stdout.push(text, "\n"),
    say: (text) => stderr.push(text, "\n"),
  });
  return { code, stdout: stdout.join(""), stderr: stderr.join("") };
};

// npm run export.

/** Runs the export command in this process. */
export const runExport = async (databaseUrl: string, ...args: string[]) => {
  const lines: string[] = [];
  const code = await exportCommand(args, {
    environment: { DATABASE_URL: databaseUrl },
    say: (text) => lines.push(text),
    signal: new AbortController().signal,
  });
  return { code, output: lines.join("\n") };
};

/** Starts `npm run export`, for tests that stop it, kill it or measure its memory. */
export const startExport = (databaseUrl: string, ...args: string[]) => {
  const { output, printed } = captureOutput();
  const child = startNode(join(ROOT, "commands/export/main.ts"), args, {
    output,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, DATABASE_URL: databaseUrl },
  });
  return { ...child, output: printed };
};

/** Inserts changes of chain 1 between generated wallets. */
export const addChanges = async (database: pg.Client, count: number, values: object = {}) => {
  const table = `${await readServedSchema(database)}.delegation_change`;
  await database.query("set session_replication_role = replica");
  await database.query(
    `insert into ${table} select made.*
     from (select change from ${table} change where chain_id = 1 and type = 'ERC1155' limit 1) one,
       generate_series(1, $2) i,
       jsonb_populate_record(change, $1::jsonb || jsonb_build_object('ordinal', 1000 + i,
         'vault', '0x' || lpad(md5('vault' || i), 40, '0'), 'delegate', '0x' || lpad(md5('delegate' || i % 1000), 40, '0'),
         'transaction_hash', '0x' || md5('a' || i) || md5('b' || i))) made`,
    [JSON.stringify(values), count],
  );
};

/** Creates a folder that is deleted after the test. */
export const createFolder = async () => {
  const folder = await mkdtemp(join(tmpdir(), "delegation-registry-export-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
};

// npm run roles.

/** Runs the roles command in this process. */
export const runRoles = async (
  env: NodeJS.ProcessEnv,
  ...args: string[]
): Promise<{ code: number; output: string; printed: string }> => {
  const [said, printed]: [string[], string[]] = [[], []];
  const code = await rolesCommand(args, env, {
    print: (text) => printed.push(text),
    say: (text) => said.push(text),
  });
  return { code, output: said.join("\n"), printed: printed.join("\n") };
};

/** Creates settings of `npm run roles` with unique roles, which are dropped after the test. */
export const createRoleSettings = (databaseUrl: string) => {
  const [indexer, api, analyst] = [generateName("indexer"), generateName("api"), generateName("analyst")];
  onTestFinished(async () => {
    const client = new pg.Client(databaseUrl);
    await client.connect();
    for (const role of [analyst, api, indexer]) {
      await client.query(`drop owned by ${role} cascade; drop role ${role}`).catch(() => {});
    }
    await client.end();
  });
  const env = {
    DATABASE_URL: databaseUrl,
    INDEXER_ROLE: indexer,
    INDEXER_PASSWORD: "indexer's+secret",
    API_ROLE: api,
    API_PASSWORD: "api's/secret/$1",
    ANALYST_ROLE: analyst,
    ANALYST_PASSWORD: "analyst's@secret",
  };
  const urlOf = (role: string, password: string) => {
    const url = new URL(databaseUrl);
    [url.username, url.password] = [role, encodeURIComponent(password)];
    return url.href;
  };
  return {
    env,
    roles: { indexer, api, analyst },
    urls: {
      indexer: urlOf(indexer, env.INDEXER_PASSWORD),
      api: urlOf(api, env.API_PASSWORD),
      analyst: urlOf(analyst, env.ANALYST_PASSWORD),
    },
    urlOf,
  };
};

const expectDenied = async (client: pg.Client, statements: readonly string[]) => {
  for (const statement of statements) {
    await expect(client.query(statement), statement).rejects.toThrow(/permission denied|must be owner|read-only/);
  }
};

const expectAllowed = async (client: pg.Client, statements: readonly string[]) => {
  for (const statement of statements) await expect(client.query(statement), statement).resolves.toBeDefined();
};

type Clients = Record<"asIndexer" | "asApi" | "asAnalyst", pg.Client>;

/** Expects each role to have its own rights and no others, also on objects that the indexer creates later. */
export const expectRights = async ({ asIndexer, asApi, asAnalyst }: Clients, chainId: number): Promise<void> => {
  const index = await readServedSchema(asIndexer);
  await expectAllowed(asIndexer, [
    "create or replace view analytics.roles_test as select * from registry.delegation_change",
    `create or replace function analytics.count_test() returns bigint stable language sql
       return (select count(*) from analytics.roles_test)`,
  ]);
  await expectDenied(asIndexer, [
    "select 1 from service.api_key",
    "delete from service.api_key",
    "create table service.mine ()",
  ]);

  await expectAllowed(asApi, [
    "select * from registry.delegation_v1 limit 1",
    "select * from registry.delegation_v2 limit 1",
    "select * from registry.indexed_block",
    "select * from registry.vault_v1 limit 1",
    "select * from indexer.chain",
    "select * from analytics.daily_activity",
    "select * from analytics.contracts",
  ]);
  await expectDenied(asApi, [
    "delete from registry.delegation_v2",
    "update registry.delegation_v1 set chain_id = 0",
    "update indexer.shard set caught_up = true",
    "create table registry.mine ()",
    "create table indexer.mine ()",
    "create table public.mine ()",
    "create schema mine",
    `select 1 from ${index}.delegation_v2`,
    "select 1 from ponder_sync.blocks",
    "delete from analytics.roles_test",
    "create temporary table mine ()",
    `select 1; lock table indexer.lock_${index} in exclusive mode`,
  ]);

  const { rows } = await asAnalyst.query("select count(*), analytics.count_test() from analytics.roles_test");
  expect(Number(rows[0].count)).toBeGreaterThan(0);
  expect(rows[0].count_test).toBe(rows[0].count);
  await expectAllowed(asAnalyst, [
    "select * from analytics.changes limit 1",
    "select * from analytics.chains",
    `select * from analytics.delegations_at(${chainId}, 10)`,
    `select analytics.check_all(${chainId}, '${HOT}', '${VAULT}')`,
    // A role may turn off its own read-only default. That gives it no further rights.
    "set default_transaction_read_only = off",
  ]);
  await expectDenied(asAnalyst, [
    "select 1 from service.api_key",
    "select 1 from service.api_key_usage",
    "select 1 from service.session",
    "select 1 from service.sign_in",
    "select secret from service.webhook",
    "select body from service.webhook_delivery",
    "update service.webhook_worker set expires_at = now()",
    "select 1 from registry.delegation_v2",
    `select 1 from ${index}.delegation_v2`,
    "select 1 from indexer.shard",
    "select 1 from ponder_sync.blocks",
    "delete from analytics.roles_test",
    "create view analytics.mine as select 1",
    "create schema mine",
    "create table public.mine ()",
    "create temporary table mine ()",
    `select 1; lock table indexer.lock_${index} in exclusive mode`,
    // These need a superuser's "npm run roles".
    "select pg_advisory_lock(1)",
    "select pg_try_advisory_xact_lock_shared(1, 1)",
    "select lo_from_bytea(0, 'x')",
    "set temp_file_limit = -1",
  ]);
};

/** Creates an administrator of a database who is no superuser. */
export const createAdministrator = async (databaseUrl: string): Promise<string> => {
  const url = new URL(databaseUrl);
  const client = new pg.Client(databaseUrl);
  await client.connect();
  const name = generateName("admin");
  await client.query(`create role ${name} login createrole password 'pass'`);
  await client.query(`alter database ${url.pathname.slice(1)} owner to ${name}`);
  await client.end();
  [url.username, url.password] = [name, "pass"];
  return url.href;
};
