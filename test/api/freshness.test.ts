import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Database } from "../../api/database/database.ts";
import { blocksStatement } from "../../api/shards/read-shards.ts";
import { type Api, CHECK, FRESH_FOR_A_DAY, FRIEND, GUEST, HOT, launchApi, VAULT } from "../support/api.ts";
import { readServedSchema } from "../support/index-copy.ts";
import { createPopularDatabase } from "../support/million.ts";
import { connectClient, waitUntil } from "../support/setup.ts";

// An answer and its block come from one statement, so that an index that advances meanwhile never mixes two blocks.

const VIEWS = ["delegation_v2", "indexed_block"];
const GATE = 1;
/** The statement that refreshes the shards. */
const LOOK = blocksStatement(new Database("", pino({ enabled: false })), "registry").text;

let popular: Awaited<ReturnType<typeof createPopularDatabase>>;
let schema: string;
let definitions: string[];
let api: Api;
beforeAll(async () => {
  // Enough for a streamed list.
  popular = await createPopularDatabase(1_100);
  schema = await readServedSchema(popular.client);
  const { rows } = await popular.client.query(
    "select rtrim(pg_get_viewdef(('registry.' || view)::regclass), ';') as text from unnest($1::text[]) view",
    [VIEWS],
  );
  definitions = rows.map(({ text }) => text);
  api = await launchApi({ databaseUrl: popular.databaseUrl, env: FRESH_FOR_A_DAY });
});
afterAll(async () => {
  await api?.stop();
  await popular?.client.end();
});

/** Makes matching statements over the API's views wait while the gate is locked, after they have their snapshot. */
const installGate = async (statements: string) => {
  const wait = `case when current_query() ~ '${statements}' then pg_advisory_xact_lock_shared(${GATE})::text end`;
  for (const [index, view] of VIEWS.entries()) {
    await popular.client.query(
      `create or replace view registry.${view} as
       select shown.* from (${definitions[index]}) shown where coalesce((select ${wait}), '') = ''`,
    );
  }
};

/** Reads the statements that wait at the gate, except the refresh of the shards every two seconds. */
const readWaiting = async () => {
  const { rows } = await popular.client.query(
    `select query from pg_stat_activity
     where application_name = 'api' and datname = current_database() and wait_event = 'advisory' and query <> $1`,
    [LOOK],
  );
  return rows;
};

const ask = async (path: string) => {
  const response = await api.get(path);
  const body = await response.text();
  return { status: response.status, body, block: Number(response.headers.get("X-Indexed-Block")) };
};

const ANY = ".";
/** Matches the first page of a long list, not its cursor. */
const FIRST_PAGE = "^\\(select";

// If Postgres gets no CPU for a second, waiting requests get a 503.
test.for<[what: string, path: () => string, delegate: () => string, statements: string]>([
  ["a check", () => CHECK, () => HOT, ANY],
  ["a short list", () => `/registry/v2/${GUEST}`, () => GUEST, ANY],
  ["a page of a list", () => `/registry/v2/${VAULT}?limit=2`, () => FRIEND, ANY],
  ["a long list", () => `/registry/v2/${popular.popular}`, () => popular.popular, FIRST_PAGE],
])(
  "%s is right at its X-Indexed-Block while the index advances",
  { retry: 2 },
  async ([, pathOf, delegateOf, gated]) => {
    const [path, delegate] = [pathOf(), delegateOf().toLowerCase()];
    const writer = await connectClient(popular.databaseUrl);
    await writer.query("set session_replication_role = replica");
    await installGate(gated);
    const before = await ask(path);
    expect(before.status).toBe(200);

    await writer.query("select pg_advisory_lock($1)", [GATE]);
    const asking = ask(path);
    await waitUntil("a statement waits", readWaiting, 10, ({ length }) => length > 0);
    // The next block revokes the oldest delegation to the wallet, or makes it again.
    await writer.query("begin");
    const oldest = `select ctid from ${schema}.delegation_v2 where delegate = $1 and chain_id in (1, -1) order by block_number limit 1`;
    await writer.query(`update ${schema}.delegation_v2 set chain_id = -chain_id where ctid = (${oldest})`, [delegate]);
    await writer.query(`update ${schema}.indexed_block set number = number + 1 where chain_id = 1`);
    await writer.query("commit");
    await writer.query("select pg_advisory_unlock($1)", [GATE]);

    const meanwhile = await asking;
    const after = await ask(path);
    expect(after).toMatchObject({ status: 200, block: before.block + 1 });
    expect(after.body).not.toBe(before.body);
    expect([before, after]).toContainEqual(meanwhile);
  },
);
