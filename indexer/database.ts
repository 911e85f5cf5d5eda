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
  )`;

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
    const meta = await this.#metaOf(schema);
    if (meta) await this.#query(`update ${meta} set value = jsonb_set(value, '{is_locked}', '0')`);
  }

  /** Whether an index has caught up with all its chains since its Ponder started. */
  async isReady(schema: string): Promise<boolean> {
    const meta = await this.#metaOf(schema);
    if (!meta) return false;
    const { rows } = await this.#query(`select (value->>'is_ready')::int = 1 as ready from ${meta}`);
    return rows[0]?.ready ?? false;
  }

  /** The schema that a shard's views show, or null while there are none. */
  async servedSchema(shard: string): Promise<string | null> {
    const { rows } = await this.#query(
      `select source_namespace.nspname as schema
       from pg_class view
       join pg_namespace on pg_namespace.oid = view.relnamespace
       join pg_rewrite on pg_rewrite.ev_class = view.oid
       join pg_depend on pg_depend.classid = 'pg_rewrite'::regclass and pg_depend.objid = pg_rewrite.oid
         and pg_depend.refclassid = 'pg_class'::regclass and pg_depend.refobjid <> view.oid
       join pg_class source on source.oid = pg_depend.refobjid
       join pg_namespace source_namespace on source_namespace.oid = source.relnamespace
       where pg_namespace.nspname = $1 and view.relname = '_ponder_meta'
       limit 1`,
      [shard],
    );
    return rows[0]?.schema ?? null;
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
        await client.query(`drop schema ${pg.escapeIdentifier(schema)} cascade`);
        dropped.push(schema);
      });
    }
    return dropped;
  }

  async #metaOf(schema: string): Promise<string | null> {
    const meta = `${pg.escapeIdentifier(schema)}._ponder_meta`;
    const { rows } = await this.#query("select to_regclass($1) is not null as exists", [meta]);
    return rows[0]?.exists ? meta : null;
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
