import type pg from "pg";
import { pino } from "pino";
import { expect } from "vitest";
import { Database } from "../../api/database/database.ts";
import { blocksStatement } from "../../api/shards/read-shards.ts";
import { type Api, CHECK, FRIEND, GUEST, HOT, VAULT } from "../support/api.ts";
import { ALL, postChecks } from "../support/bulk-checks.ts";
import { readServedSchema } from "../support/index-copy.ts";
import { createPopularDatabase } from "../support/million.ts";
import { connectClient, waitUntil } from "../support/setup.ts";
import { test as base } from "../support/test.ts";

// An answer and its block come from one statement, so that an index that advances meanwhile never mixes two blocks.

const VIEWS = ["delegation_v2", "indexed_block"];
const GATE = 1;
/** The statement that refreshes the shards. */
const LOOK = blocksStatement(new Database("", pino({ enabled: false })), "registry").text;

const test = base
  /** A database with a wallet that has enough delegations for a streamed list. */
  .extend("popular", { scope: "file" }, async ({}, { onCleanup }) => {
    const { databaseUrl, client, popular } = await createPopularDatabase(1_100);
    onCleanup(() => client.end());
    const { rows } = await client.query(
      "select rtrim(pg_get_viewdef(('registry.' || view)::regclass), ';') as text from unnest($1::text[]) view",
      [VIEWS],
    );
    const definitions = rows.map(({ text }) => String(text));
    return { databaseUrl, client, wallet: popular, schema: await readServedSchema(client), definitions };
  })
  .extend("databaseUrl", ({ popular }) => popular.databaseUrl);

/** Makes matching statements over the API's views wait while the gate is locked, after they have their snapshot. */
const installGate = async (client: pg.Client, definitions: string[], statements: string) => {
  const wait = `case when current_query() ~ '${statements}' then pg_advisory_xact_lock_shared(${GATE})::text end`;
  for (const [index, view] of VIEWS.entries()) {
    await client.query(
      `create or replace view registry.${view} as
       select shown.* from (${definitions[index]}) shown where coalesce((select ${wait}), '') = ''`,
    );
  }
};

/** Reads the statements that wait at the gate, except the refresh of the shards every two seconds. */
const readWaiting = async (client: pg.Client) => {
  const { rows } = await client.query(
    `select query from pg_stat_activity
     where application_name = 'api' and datname = current_database() and wait_event = 'advisory' and query <> $1`,
    [LOOK],
  );
  return rows;
};

const BULK = "/registry/checks";

/** A bulk answer names its block in the body. */
const ask = async (api: Api, path: string) => {
  const response = path === BULK ? await postChecks(api, { checks: [ALL] }) : await api.get(path);
  const body = await response.text();
  const block = response.headers.get("X-Indexed-Block") ?? JSON.parse(body).blocks?.[1]?.number;
  return { status: response.status, body, block: Number(block) };
};

const ANY = ".";
/** Matches the first page of a long list, not its cursor. */
const FIRST_PAGE = "^\\(select";

test.for<[what: string, path: string, delegate: string, statements: string]>([
  ["a check", CHECK, HOT, ANY],
  ["a bulk answer", BULK, HOT, ANY],
  ["a list of vaults", `/wallets/${HOT}/vaults?chainId=1`, HOT, ANY],
  ["a list of a wallet's delegations", `/wallets/${HOT}/delegations?chainId=1`, HOT, ANY],
  ["a short list", `/registry/v2/${GUEST}`, GUEST, ANY],
  ["a page of a list", `/registry/v2/${VAULT}?limit=2`, FRIEND, ANY],
  ["a long list", "/registry/v2/{popular}", "{popular}", FIRST_PAGE],
])(
  "%s is right at the block that it names while the index advances",
  async ([, path, delegate, gated], { api, popular }) => {
    const fill = (text: string) => text.replace("{popular}", popular.wallet);
    const { client, schema } = popular;
    const writer = await connectClient(popular.databaseUrl);
    await writer.query("set session_replication_role = replica");
    await installGate(client, popular.definitions, gated);

    /** Asks before, while and after the next block revokes the oldest delegation to the wallet, or makes it again. */
    const askAround = async () => {
      const before = await ask(api, fill(path));
      await writer.query("select pg_advisory_lock($1)", [GATE]);
      const asking = ask(api, fill(path));
      const waiting = waitUntil(
        "a statement waits",
        () => readWaiting(client),
        10,
        ({ length }) => length > 0,
      );
      await Promise.race([waiting, asking]);
      await writer.query("begin");
      const oldest = `select ctid from ${schema}.delegation_v2 where delegate = $1 and chain_id in (1, -1) order by block_number limit 1`;
      await writer.query(`update ${schema}.delegation_v2 set chain_id = -chain_id where ctid = (${oldest})`, [
        fill(delegate).toLowerCase(),
      ]);
      await writer.query(`update ${schema}.indexed_block set number = number + 1 where chain_id = 1`);
      await writer.query("commit");
      await writer.query("select pg_advisory_unlock($1)", [GATE]);
      await waiting.catch(() => {});
      return { before, meanwhile: await asking, after: await ask(api, fill(path)) };
    };
    // A request that waits for more than a second, on a busy machine, returns 503 and says nothing about the index.
    const { before, meanwhile, after } = await waitUntil("all three are answered", askAround, 60, (answers) =>
      Object.values(answers).every(({ status }) => status === 200),
    );
    expect(after.block).toBe(before.block + 1);
    expect(after.body).not.toBe(before.body);
    expect([before, after]).toContainEqual(meanwhile);
  },
);
