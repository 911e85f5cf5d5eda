import pg from "pg";
import type { RegistryVersion } from "../registry/networks.ts";
import type { RegistryPlan } from "./plan.ts";

/** The indexer's own notes, apart from what Ponder keeps. */
const CREATE_NOTES = `
  create schema if not exists indexer;
  create table if not exists indexer.start_block (
    chain_id bigint not null,
    registry text not null,
    address text not null,
    block bigint not null,
    found_at timestamptz not null default now(),
    primary key (chain_id, registry, address)
  );
  create table if not exists indexer.shard (
    name text primary key,
    -- the index that the shard's views show
    schema text not null,
    since timestamptz not null default now()
  )`;

/** What Postgres says to a view that would change its columns. */
const INVALID_TABLE_DEFINITION = "42P16";

/**
 * Shorter than Postgres waits before it looks for a deadlock: whoever changes what others read gives
 * way to them, and tries again.
 */
const GIVE_WAY = "set local lock_timeout = '200ms'";

/** One key for all indexers: "create if not exists" by two at once can fail. */
const NOTES_LOCK = 0x6465_6c65;

/**
 * An indexer's own connection: notes, locks, and the life of index schemas. A lost connection is
 * made again at the next use, with the locks that it held.
 */
export class IndexerDatabase {
  readonly #url: string;
  readonly #locks = new Set<string>();
  #client: Promise<pg.Client> | undefined;

  private constructor(url: string) {
    this.#url = url;
  }

  static async connect(url: string): Promise<IndexerDatabase> {
    const database = new IndexerDatabase(url);
    await database.#inTransaction(async (client) => {
      await client.query("select pg_advisory_xact_lock($1)", [NOTES_LOCK]);
      await client.query(CREATE_NOTES);
    });
    return database;
  }

  async close(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    await (await client?.catch(() => undefined))?.end();
  }

  async recallStartBlock(chainId: number, registry: RegistryVersion, address: string): Promise<number | null> {
    const { rows } = await this.#query(
      "select block from indexer.start_block where chain_id = $1 and registry = $2 and address = $3",
      [chainId, registry, address.toLowerCase()],
    );
    return rows[0] ? Number(rows[0].block) : null;
  }

  async rememberStartBlock(chainId: number, registry: RegistryVersion, { address, startBlock }: RegistryPlan) {
    await this.#query(
      "insert into indexer.start_block (chain_id, registry, address, block) values ($1, $2, $3, $4) on conflict do nothing",
      [chainId, registry, address.toLowerCase(), startBlock],
    );
  }

  /** Takes an index for this process. */
  async lockIndex(schema: string): Promise<boolean> {
    const isTaken = await tryLock(await this.#connection(), schema);
    if (isTaken) this.#locks.add(schema);
    return isTaken;
  }

  /**
   * Lifts Ponder's own lock of a schema, which outlives a killed process by 25 s. Only for whoever
   * holds the index and knows that its Ponder has ended.
   */
  async releasePonderLock(schema: string): Promise<void> {
    const meta = await this.#tableIn(schema, "_ponder_meta");
    if (meta) await this.#query(`update ${meta} set value = jsonb_set(value, '{is_locked}', '0')`);
  }

  /** The index that a shard's views show, or null while there are none. */
  async servedSchema(shard: string): Promise<string | null> {
    const { rows } = await this.#query("select schema from indexer.shard where name = $1", [shard]);
    return rows[0]?.schema ?? null;
  }

  /**
   * Whether an index can be shown: its Ponder is through with history, and it has a newest block for
   * each of its chains that is no older than the one shown now.
   */
  async hasCaughtUp(schema: string, chainIds: readonly number[], served: string | null): Promise<boolean> {
    const meta = await this.#tableIn(schema, "_ponder_meta");
    if (!meta) return false;
    const { rows: state } = await this.#query(`select value->'is_ready' = '1' as ready from ${meta}`);
    if (!state[0]?.ready) return false;

    const fresh = await this.#tableIn(schema, "indexed_block");
    const shown = served && (await this.#tableIn(served, "indexed_block"));
    const { rows } = await this.#query(
      `select count(*)::int as chains from ${fresh} fresh
       where chain_id = any($1) ${shown ? `and number >= coalesce((select number from ${shown} where chain_id = fresh.chain_id), 0)` : ""}`,
      [chainIds],
    );
    return rows[0]?.chains === chainIds.length;
  }

  /** Has a shard's views show an index, from one moment to the next. */
  async serve(shard: string, schema: string): Promise<void> {
    await this.#inTransaction(async (client) => {
      const { rows } = await client.query<{ name: string }>(
        `select jsonb_array_elements_text(value->'table_names' || '["_ponder_meta", "_ponder_checkpoint"]') as name
         from ${pg.escapeIdentifier(schema)}._ponder_meta`,
      );
      await client.query(GIVE_WAY);
      await client.query(`create schema if not exists ${pg.escapeIdentifier(shard)}`);
      for (const { name } of rows) {
        const view = `${pg.escapeIdentifier(shard)}.${pg.escapeIdentifier(name)}`;
        const select = `as select * from ${pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(name)}`;
        await client.query("savepoint replacing");
        try {
          await client.query(`create or replace view ${view} ${select}`);
        } catch (error) {
          // Other columns than before: only then is it another view, and loses what was granted on it.
          if (!(error instanceof pg.DatabaseError) || error.code !== INVALID_TABLE_DEFINITION) throw error;
          await client.query("rollback to savepoint replacing");
          await client.query(`drop view if exists ${view}`);
          await client.query(`create view ${view} ${select}`);
        }
      }
      await client.query(
        `insert into indexer.shard (name, schema) values ($1, $2)
         on conflict (name) do update set schema = excluded.schema, since = now()`,
        [shard, schema],
      );
    });
  }

  /**
   * Drops a shard's index schemas other than the one that is served. One that an indexer still
   * holds is left for the next time.
   * @returns the schemas dropped.
   */
  async dropSuperseded(shard: string, served: string): Promise<string[]> {
    const { rows } = await this.#query<{ schema: string }>(
      "select nspname as schema from pg_namespace where nspname ~ ('^' || $1 || '_[0-9a-f]{10}$') and nspname <> $2",
      [shard, served],
    );
    const dropped: string[] = [];
    for (const { schema } of rows) {
      await this.#inTransaction(async (client) => {
        const { rows } = await client.query<{ free: boolean }>(
          "select pg_try_advisory_xact_lock(hashtextextended($1, 0)) as free",
          [schema],
        );
        if (!rows[0]?.free) return;
        await client.query(GIVE_WAY);
        await client.query(`drop schema ${pg.escapeIdentifier(schema)} cascade`);
        dropped.push(schema);
      });
    }
    return dropped;
  }

  /** A table's full name, or null if there is no such table. */
  async #tableIn(schema: string, table: string): Promise<string | null> {
    const name = `${pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(table)}`;
    const { rows } = await this.#query("select to_regclass($1) is not null as exists", [name]);
    return rows[0]?.exists ? name : null;
  }

  async #query<Row extends pg.QueryResultRow = pg.QueryResultRow>(text: string, values: unknown[] = []) {
    const client = await this.#connection();
    return client.query<Row>(text, values);
  }

  async #inTransaction(run: (client: pg.Client) => Promise<void>): Promise<void> {
    const client = await this.#connection();
    await client.query("begin");
    try {
      await run(client);
      await client.query("commit");
    } catch (error) {
      await client.query("rollback").catch(() => {});
      throw error;
    }
  }

  #connection(): Promise<pg.Client> {
    if (!this.#client) {
      const connecting = this.#connect();
      this.#client = connecting;
      connecting.catch(() => {
        if (this.#client === connecting) this.#client = undefined;
      });
    }
    return this.#client;
  }

  async #connect(): Promise<pg.Client> {
    const client = new pg.Client({
      connectionString: this.#url,
      application_name: "indexer",
      keepAlive: true,
      connectionTimeoutMillis: 10_000,
    });
    client.on("error", () => {
      this.#client = undefined;
    });
    await client.connect();
    for (const schema of this.#locks) {
      if (!(await tryLock(client, schema))) {
        await client.end();
        throw new Error(`Another indexer has taken ${schema}.`);
      }
    }
    return client;
  }
}

const tryLock = async (client: pg.Client, schema: string): Promise<boolean> => {
  const { rows } = await client.query<{ taken: boolean }>(
    "select pg_try_advisory_lock(hashtextextended($1, 0)) as taken",
    [schema],
  );
  return rows[0]?.taken ?? false;
};
