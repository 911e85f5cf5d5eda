import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { zeroHash } from "viem";
import type { RegistryVersion } from "../registry/networks.ts";
import { holdReaders, remakeAnalytics, updateAnalytics } from "./analytics/keep-analytics.ts";
import { blockOf, FINAL_BLOCK } from "./checkpoint.ts";
import type { ChainPlan, RegistryPlan } from "./plan.ts";
import { summarise } from "./summarise.ts";

/** The indexers' own notes, apart from what Ponder keeps. */
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
  create table if not exists indexer.index (
    schema text primary key,
    shard text not null,
    started_at timestamptz not null
  );
  -- what each index follows, and how far it is: for whoever asks why a shard does not answer yet
  create table if not exists indexer.chain (
    schema text not null references indexer.index on delete cascade,
    chain_id bigint not null,
    -- the chain's own newest block, when it was last looked at
    newest_number bigint not null,
    newest_timestamp bigint not null,
    -- the newest block whose events are stored
    reached_number bigint not null,
    -- the registries that it indexes, by their addresses
    v1 text,
    v2 text,
    seen_at timestamptz not null,
    primary key (schema, chain_id)
  );
  -- Later than the table, and only where it is missing: even in vain, "alter table" waits for all readers.
  do $$ begin
    if not exists (select from pg_attribute where attrelid = 'indexer.chain'::regclass and attname = 'start_number') then
      -- the first block that it indexes, of either registry
      alter table indexer.chain add column start_number bigint;
    end if;
  end $$;
  -- what happened up to a final block, summed up: for whoever asks about all time
  create table if not exists indexer.summary (
    schema text not null references indexer.index on delete cascade,
    chain_id bigint not null,
    block bigint not null,
    -- false until all was summed up once: what is left would be long to read
    complete boolean not null,
    primary key (schema, chain_id)
  );
  create table if not exists indexer.daily_summary (
    schema text not null references indexer.index on delete cascade,
    chain_id bigint not null,
    day date not null,
    registry text not null,
    type text not null,
    made bigint not null,
    changed bigint not null,
    revoked bigint not null,
    primary key (schema, chain_id, day, registry, type)
  );
  create table if not exists indexer.contract_summary (
    schema text not null references indexer.index on delete cascade,
    chain_id bigint not null,
    contract text not null,
    made bigint not null,
    revoked bigint not null,
    primary key (schema, chain_id, contract)
  );
  create table if not exists indexer.shard (
    name text primary key,
    -- the index that the shard's views show
    schema text not null,
    -- false while that index is behind its chains, after a restart
    caught_up boolean not null,
    since timestamptz not null
  )`;

/** One key for all indexers: "create if not exists" by two at once can fail. */
const NOTES_LOCK = 0x6465_6c65;

/** What Postgres says to a view that would change its columns. */
const INVALID_TABLE_DEFINITION = "42P16";

/**
 * Shorter than Postgres waits before it looks for a deadlock: whoever changes what others read gives
 * way to them, and tries again.
 */
const GIVE_WAY = "set local lock_timeout = '200ms'";

/** The timeline that a server writes, in its own digits. */
const TIMELINE = "left(pg_walfile_name(pg_current_wal_lsn()), 8)";
/** What a server says that does not tell it, as some that are managed: not allowed, not there, not supported. */
const NOT_TOLD = ["42501", "42883", "0A000"];

const QUERY_TIMEOUT_MS = 60_000;
const CLOSE_TIMEOUT_MS = 2_000;
const RETAKE_MS = 2_000;

/** The newest block of each chain by its id. */
export type Heads = ReadonlyMap<number, { number: bigint; timestamp: bigint }>;

/** Another process has the index that this one held. */
export class IndexTakenError extends Error {
  override name = "IndexTakenError";

  constructor(schema: string) {
    super(`Another indexer is running the same index (${schema}). End one, or give it another SHARD.`);
  }
}

/**
 * An indexer's own connection: notes, locks, and the life of index schemas. A lost connection is
 * made again at the next use, with the lock that it held.
 */
export class IndexerDatabase {
  readonly #url: string;
  #locked: string | undefined;
  /** That of the Postgres which the run began with. */
  #timeline: string | null = null;
  #isInDoubt = false;
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

  /** Ends the connection, also one that no longer answers. */
  async close(): Promise<void> {
    const client = await this.#client?.catch(() => undefined);
    this.#client = undefined;
    const timeout = new Promise((resolve) => setTimeout(resolve, CLOSE_TIMEOUT_MS).unref());
    await Promise.race([client?.end(), timeout]);
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

  /** Takes an index for this process. Throws an IndexTakenError if another one has it. */
  async takeIndex(shard: string, schema: string): Promise<void> {
    await takeLock(await this.#connection(), schema);
    this.#locked = schema;
    await this.#query(
      `insert into indexer.index (schema, shard, started_at) values ($1, $2, clock_timestamp())
       on conflict (schema) do update set started_at = excluded.started_at`,
      [schema, shard],
    );
  }

  /**
   * Notes that an index is about to be run: until it has caught up, its shard says nothing. Throws an
   * IndexTakenError if this process no longer has it.
   * @returns whether what Ponder stores is guarded: not yet, where it has still to make its tables
   */
  async beginRun(shard: string, schema: string): Promise<boolean> {
    this.#timeline = await this.#readTimeline();
    this.#isInDoubt = false;
    await this.#query("update indexer.shard set caught_up = false where name = $1 and schema = $2", [shard, schema]);
    // Ponder does so too, but only when it has spoken to all its chains.
    await this.#setMeta(schema, "is_ready", 0);
    // Ponder's own lock outlives a killed process by 25 s.
    if (!(await this.#hasPonder(schema))) await this.#setMeta(schema, "is_locked", 0);
    await this.#forgetIndexedBlocks(schema);
    return this.guardStore(schema);
  }

  /**
   * Has Postgres guard what Ponder stores, all of which comes with a checkpoint. It puts it on disk before it says that
   * it is stored, which Ponder does not ask for. And a standby that took over since the run began refuses it: it may lack
   * what was stored last, and Ponder would go on after that.
   * @returns false while Ponder has not made its tables
   */
  async guardStore(schema: string): Promise<boolean> {
    const client = await this.#connection();
    const checkpoints = await tableIn(client, schema, "_ponder_checkpoint");
    if (!checkpoints) return false;
    const guard = tableName(schema, "on_store");
    // To Ponder "does not exist" is an error that it need not try again: it ends at once.
    const refusal = "What was stored last may not be there: another Postgres has taken over, where it does not exist.";
    const refuse =
      this.#timeline === null ? "" : `if ${TIMELINE} <> '${this.#timeline}' then raise exception '${refusal}'; end if;`;
    await client.query(
      `create or replace function ${guard}() returns trigger language plpgsql as $$ begin
         ${refuse}
         perform set_config('synchronous_commit', 'on', true);
         return null;
       end $$`,
    );
    await client.query(
      `create or replace trigger on_store after insert or update on ${checkpoints}
       for each statement execute function ${guard}()`,
    );
    return true;
  }

  /** The timeline of the server, a new one for each standby that takes over; null where the server does not tell. */
  async #readTimeline(): Promise<string | null> {
    try {
      const { rows } = await this.#query<{ timeline: string }>(`select ${TIMELINE} as timeline`);
      return rows[0]?.timeline ?? null;
    } catch (error) {
      if (error instanceof pg.DatabaseError && NOT_TOLD.includes(error.code ?? "")) return null;
      throw error;
    }
  }

  /**
   * Whether the connection was lost since the run began. A standby may have taken over then, without what Ponder had
   * stored last: what it stores next would leave a gap.
   */
  get isInDoubt(): boolean {
    return this.#isInDoubt;
  }

  /** The index that a shard's views show, or null while there are none. */
  async servedSchema(shard: string): Promise<string | null> {
    const { rows } = await this.#query("select schema from indexer.shard where name = $1", [shard]);
    return rows[0]?.schema ?? null;
  }

  /** Notes what an index indexes, and how far it has come with each chain whose newest block is known. */
  async noteHeads(schema: string, chains: readonly ChainPlan[], heads: Heads): Promise<void> {
    const client = await this.#connection();
    const checkpoints = await tableIn(client, schema, "_ponder_checkpoint");
    const noted = chains.flatMap(({ chainId, v1, v2 }) => {
      const head = heads.get(chainId);
      if (!head) return [];
      const start = Math.min(v1?.startBlock ?? Infinity, v2?.startBlock ?? Infinity);
      return { chainId, ...head, start, v1: v1?.address.toLowerCase(), v2: v2?.address.toLowerCase() };
    });
    await client.query(
      `insert into indexer.chain (schema, chain_id, newest_number, newest_timestamp, reached_number, v1, v2, start_number, seen_at)
       select $1, head.chain_id, head.number, head.timestamp,
         coalesce(${checkpoints ? blockOf("latest_checkpoint") : "null"}, 0), head.v1, head.v2, head.start, clock_timestamp()
       from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bigint[])
         as head (chain_id, number, timestamp, v1, v2, start)
       ${checkpoints ? `left join ${checkpoints} checkpoint on checkpoint.chain_id = head.chain_id` : ""}
       on conflict (schema, chain_id) do update set newest_number = excluded.newest_number,
         newest_timestamp = excluded.newest_timestamp, reached_number = excluded.reached_number,
         start_number = excluded.start_number, seen_at = excluded.seen_at`,
      [
        schema,
        noted.map(({ chainId }) => chainId),
        noted.map(({ number }) => number),
        noted.map(({ timestamp }) => timestamp),
        noted.map(({ v1 }) => v1),
        noted.map(({ v2 }) => v2),
        noted.map(({ start }) => start),
      ],
    );
  }

  /**
   * Has a shard's views show an index, from one moment to the next, if the index has caught up: its
   * Ponder is through with history, without a doubt, and its newest blocks are no older than the chains'
   * own were when Ponder started, nor than the ones shown now.
   * @returns whether it is shown now.
   */
  async serve(shard: string, schema: string, heads: Heads): Promise<boolean> {
    const served = await this.servedSchema(shard);
    const isFresh = (client: Queries) => hasCaughtUp(client, schema, heads, served === schema ? null : served);
    if (!(await isFresh(await this.#connection()))) return false;

    return this.#inTransaction(async (client) => {
      await client.query(GIVE_WAY);
      if (await hasOtherColumns(client, shard, schema)) await holdReaders(client);
      // Also where they show it already: what they say of it may have been written otherwise before.
      await replaceViews(client, shard, schema);
      // Once more, now that readers wait: none of them has seen a newer block than they will.
      if (!(await isFresh(client)) || this.#isInDoubt) throw new NotYetError();
      await client.query(
        `insert into indexer.shard (name, schema, caught_up, since) values ($1, $2, true, now())
         on conflict (name) do update set schema = excluded.schema, caught_up = true, since = excluded.since`,
        [shard, schema],
      );
      return true;
    }).catch((error) => {
      if (error instanceof NotYetError) return false;
      throw error;
    });
  }

  /**
   * Sums up what is final and was not summed up before, as much as can be done in a moment.
   * @returns whether all is
   */
  async summarise(schema: string): Promise<boolean> {
    return summarise(await this.#connection(), schema);
  }

  /** Keeps the schema "analytics" up to date with all shards of the database. */
  async keepAnalytics(): Promise<void> {
    await this.#inTransaction(async (client) => {
      await client.query(GIVE_WAY);
      await updateAnalytics(client);
    });
  }

  /**
   * Drops a shard's indexes that were started before the one that is served. One that an indexer
   * still holds is left for the next time.
   * @returns the schemas dropped.
   */
  async dropSuperseded(shard: string): Promise<string[]> {
    const { rows } = await this.#query<{ schema: string }>(
      `select old.schema from indexer.index old
       join indexer.shard on shard.name = old.shard
       join indexer.index served on served.schema = shard.schema
       where old.shard = $1 and old.started_at < served.started_at`,
      [shard],
    );
    const dropped: string[] = [];
    for (const { schema } of rows) {
      await this.#inTransaction(async (client) => {
        const { rows } = await client.query<{ free: boolean }>(
          `select pg_try_advisory_xact_lock(hashtextextended($1, 0))
             and not exists (select from indexer.shard where schema = $1) as free`,
          [schema],
        );
        if (!rows[0]?.free) return;
        await client.query(GIVE_WAY);
        await client.query(`drop schema if exists ${pg.escapeIdentifier(schema)} cascade`);
        await client.query("delete from indexer.index where schema = $1", [schema]);
        dropped.push(schema);
      });
    }
    return dropped;
  }

  /**
   * Forgets which blocks were told, and how to undo that. While a chain catches up its rows run ahead of the block
   * that an earlier run told; any chain's reorg could bring that block back for a moment, but not the rows.
   */
  async #forgetIndexedBlocks(schema: string): Promise<void> {
    await this.#inTransaction(async (client) => {
      const reorgTable = await tableIn(client, schema, "_reorg__indexed_block");
      if (!reorgTable) return;
      await client.query(GIVE_WAY);
      // Not "delete": Ponder's triggers would note it in order to undo it, and take its own connection for granted.
      await client.query(`truncate ${tableName(schema, "indexed_block")}, ${reorgTable}`);
    });
  }

  /** Whether a Ponder is connected that runs an index: one that was killed may take a moment to go. */
  async #hasPonder(schema: string): Promise<boolean> {
    const { rows } = await this.#query<{ connected: boolean }>(
      `select exists (
         select from pg_stat_activity
         where datname = current_database() and application_name = any ($1::name[]::text[])
       ) as connected`,
      [["internal", "user", "readonly"].map((pool) => `${schema}_${pool}`)],
    );
    return rows[0]?.connected === true;
  }

  async #setMeta(schema: string, key: string, value: number): Promise<void> {
    const client = await this.#connection();
    const meta = await tableIn(client, schema, "_ponder_meta");
    if (meta) await client.query(`update ${meta} set value = jsonb_set(value, $1, $2)`, [[key], String(value)]);
  }

  async #query<Row extends pg.QueryResultRow = pg.QueryResultRow>(text: string, values: unknown[] = []) {
    const client = await this.#connection();
    return client.query<Row>(text, values);
  }

  async #inTransaction<T>(run: (client: pg.Client) => Promise<T>): Promise<T> {
    const client = await this.#connection();
    await client.query("begin");
    try {
      const result = await run(client);
      await client.query("commit");
      return result;
    } catch (error) {
      await client.query("rollback").catch(() => {});
      throw error;
    }
  }

  #connection(): Promise<pg.Client> {
    if (!this.#client) {
      const connecting = this.#connect(() => {
        if (this.#client === connecting) this.#client = undefined;
        this.#isInDoubt = true;
      });
      this.#client = connecting;
    }
    return this.#client;
  }

  async #connect(onLost: () => void): Promise<pg.Client> {
    const client = new pg.Client({
      connectionString: this.#url,
      application_name: "indexer",
      keepAlive: true,
      connectionTimeoutMillis: 10_000,
      query_timeout: QUERY_TIMEOUT_MS,
    });
    client.on("error", () => {
      onLost();
      client.end().catch(() => {});
    });
    try {
      await client.connect();
      if (this.#locked) await retakeLock(client, this.#locked);
      return client;
    } catch (error) {
      onLost();
      client.end().catch(() => {});
      throw error;
    }
  }
}

type Queries = Pick<pg.Client, "query">;

/** The index fell behind the one shown while its views were being made. */
class NotYetError extends Error {}

/** Takes the lock of an index, for as long as the connection lives. */
const takeLock = async (client: Queries, schema: string): Promise<void> => {
  const { rows } = await client.query<{ taken: boolean }>(
    "select pg_try_advisory_lock(hashtextextended($1, 0)) as taken",
    [schema],
  );
  if (!rows[0]?.taken) throw new IndexTakenError(schema);
};

const tableName = (schema: string, table: string) => `${pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(table)}`;

/** The same after a lost connection, whose lock Postgres may take a moment to let go. */
const retakeLock = async (client: Queries, schema: string): Promise<void> => {
  for (const deadline = Date.now() + RETAKE_MS; ; await sleep(50)) {
    try {
      return await takeLock(client, schema);
    } catch (error) {
      if (!(error instanceof IndexTakenError) || Date.now() > deadline) throw error;
    }
  }
};

/** A table's full name, or null if there is no such table. */
const tableIn = async (client: Queries, schema: string, table: string): Promise<string | null> => {
  const name = tableName(schema, table);
  const { rows } = await client.query("select to_regclass($1) is not null as exists", [name]);
  return rows[0]?.exists ? name : null;
};

const hasCaughtUp = async (client: Queries, schema: string, heads: Heads, shown: string | null): Promise<boolean> => {
  const meta = await tableIn(client, schema, "_ponder_meta");
  if (!meta) return false;
  const { rows: state } = await client.query(`select value->'is_ready' = '1' as ready from ${meta}`);
  if (!state[0]?.ready) return false;

  const fresh = await tableIn(client, schema, "indexed_block");
  const old = shown && (await tableIn(client, shown, "indexed_block"));
  const { rows } = await client.query(
    `select count(*)::int as chains
     from unnest($1::bigint[], $2::bigint[]) as head (chain_id, number)
     join ${fresh} fresh on fresh.chain_id = head.chain_id and fresh.number >= head.number
     ${old ? `left join ${old} old on old.chain_id = head.chain_id where fresh.number >= coalesce(old.number, 0)` : ""}`,
    [[...heads.keys()], [...heads.values()].map(({ number }) => number)],
  );
  return rows[0]?.chains === heads.size;
};

/** Whether a view of the shard has columns that the index has otherwise: then it has to be another view. */
const hasOtherColumns = async (client: Queries, shard: string, schema: string): Promise<boolean> => {
  const columns = "relname, attname, attnum, atttypid, atttypmod";
  const { rows } = await client.query<{ other: boolean }>(
    `with attribute as (select relnamespace, ${columns} from pg_attribute join pg_class on attrelid = pg_class.oid)
     select exists (
       select ${columns} from attribute where relnamespace = to_regnamespace($1) and attname <> 'finalized_number'
       except select ${columns} from attribute where relnamespace = to_regnamespace($2)
     ) as other`,
    [pg.escapeIdentifier(shard), pg.escapeIdentifier(schema)],
  );
  return rows[0]?.other === true;
};

const replaceViews = async (client: Queries, shard: string, schema: string): Promise<void> => {
  // In the order in which Ponder locks its tables: who reads several in this order never deadlocks.
  const { rows } = await client.query<{ name: string }>(
    `select jsonb_array_elements_text(value->'table_names' || '["_ponder_meta", "_ponder_checkpoint"]') as name
     from ${pg.escapeIdentifier(schema)}._ponder_meta`,
  );
  await client.query(`create schema if not exists ${pg.escapeIdentifier(shard)}`);
  // Every answer reads it by the chain's id; Ponder's own key is the chain's name.
  await client.query(
    `create index if not exists checkpoint_by_chain_id on ${tableName(schema, "_ponder_checkpoint")} (chain_id)`,
  );
  const setAside: string[] = [];
  for (const { name } of rows) {
    const view = tableName(shard, name);
    const select =
      name === "indexed_block" ? selectIndexedBlock(shard, schema) : `select * from ${tableName(schema, name)}`;
    await client.query("savepoint replacing");
    try {
      await client.query(`create or replace view ${view} as ${select}`);
    } catch (error) {
      // Other columns than before: only then is it another view, and loses what was granted on it.
      if (!(error instanceof pg.DatabaseError) || error.code !== INVALID_TABLE_DEFINITION) throw error;
      await client.query("rollback to savepoint replacing");
      const old = `${name}_old`;
      await client.query(`alter view ${view} rename to ${pg.escapeIdentifier(old)}`);
      await client.query(`create view ${view} as ${select}`);
      setAside.push(tableName(shard, old));
    }
  }
  if (setAside.length === 0) return;
  // What is made of the old views is made of the new ones now, without ever having been away.
  await remakeAnalytics(client);
  for (const view of setAside) await client.query(`drop view ${view}`);
};

/**
 * The newest block that a shard's rows include, and the newest that Ponder takes for final; never a later
 * one, which another chain's reorg could leave there for a moment. While the index is behind
 * its chains, and of a block that was left open, nothing can be said: then there is no row.
 */
const selectIndexedBlock = (shard: string, schema: string) =>
  `select block.*, ${FINAL_BLOCK} as finalized_number
   from ${tableName(schema, "indexed_block")} block
   join ${tableName(schema, "_ponder_checkpoint")} checkpoint on checkpoint.chain_id = block.chain_id
   where block.hash <> '${zeroHash}' and (select caught_up from indexer.shard where name = ${pg.escapeLiteral(shard)})`;
