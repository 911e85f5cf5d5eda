import pg from "pg";
import type { RegistryVersion } from "../../registry/networks.ts";
import { ANALYTICS_LOCK, updateAnalytics } from "../analytics/update-analytics.ts";
import type { RegistryPlan } from "../plan.ts";
import { IndexerConnection, YIELD_TO_READERS } from "./connection.ts";
import { CREATE_TABLES } from "./create-tables.ts";
import { guardCommits, readTimeline } from "./guard-commits.ts";
import { type Heads, hasCaughtUp } from "./heads.ts";
import { createLock, dropLock, takeLock, tryLock } from "./locks.ts";
import { clearIndexedBlocks, isPonderReady, resetPonderMeta } from "./ponder-tables.ts";
import type { Queryable } from "./queryable.ts";
import { rewindChain, type ValidBlock } from "./rewind-chain.ts";
import { replaceViews } from "./shard-views.ts";

/** The lock for creating tables, shared by all indexers: two concurrent "create if not exists" can fail. */
const TABLES_LOCK = "tables";

/** An index that is further behind when Ponder starts is compared with the registries before it is served. */
export const MAX_UNPROVEN_BLOCKS = 1_000;

/** A statement may remove or restore millions of rows. Ponder does not run meanwhile. */
const REWIND_TIMEOUT_MS = 3_600_000;

/** The index fell behind the served one while its views were replaced. Rolls the transaction back. */
class FellBehindError extends Error {}

/** An indexer's database: its own tables, the lock of its index, and the life cycle of index schemas. */
export class IndexerDatabase {
  readonly #connection: IndexerConnection;
  /** The timeline of Postgres when the run began. */
  #timeline: string | null = null;

  private constructor(url: string) {
    this.#connection = new IndexerConnection(url);
  }

  static async connect(url: string): Promise<IndexerDatabase> {
    const database = new IndexerDatabase(url);
    for (const lock of [TABLES_LOCK, ANALYTICS_LOCK]) await createLock(database.#connection, lock);
    await database.#connection.runTransaction(async (client) => {
      await takeLock(client, TABLES_LOCK);
      await client.query(CREATE_TABLES);
    });
    return database;
  }

  /** For functions that need no transaction. */
  get connection(): Queryable {
    return this.#connection;
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  /** Reads the start block that a search has found. Earlier versions stored 0 for a search that failed. */
  async readStartBlock(chainId: number, registry: RegistryVersion, address: string): Promise<number | null> {
    const { rows } = await this.#connection.query(
      "select block from indexer.start_block where chain_id = $1 and registry = $2 and address = $3 and block > 0",
      [chainId, registry, address.toLowerCase()],
    );
    return rows[0] ? Number(rows[0].block) : null;
  }

  async saveStartBlock(chainId: number, registry: RegistryVersion, { address, startBlock }: RegistryPlan) {
    await this.#connection.query(
      `insert into indexer.start_block (chain_id, registry, address, block) values ($1, $2, $3, $4)
       on conflict (chain_id, registry, address) do update set block = excluded.block where start_block.block = 0`,
      [chainId, registry, address.toLowerCase(), startBlock],
    );
  }

  /** Takes an index for this process. Throws an IndexTakenError if another process has it. */
  async takeIndex(shard: string, schema: string): Promise<void> {
    await this.#connection.lockIndex(schema);
    await this.#connection.query(
      `insert into indexer.index (schema, shard, started_at) values ($1, $2, clock_timestamp())
       on conflict (schema) do update set started_at = excluded.started_at`,
      [schema, shard],
    );
  }

  /**
   * Prepares an index for a run of Ponder. Its chains do not answer until they have caught up. Throws an
   * IndexTakenError if this process has lost the index.
   * @returns true if Ponder's commits are guarded, false while Ponder has not created its tables
   */
  async beginRun(shard: string, schema: string): Promise<boolean> {
    this.#timeline = await readTimeline(this.#connection);
    this.#connection.wasLost = false;
    const hide = "update indexer.shard set caught_up = false where name = $1 and schema = $2";
    await this.#connection.query(hide, [shard, schema]);
    await resetPonderMeta(this.#connection, schema);
    await this.#connection.runTransaction((client) => clearIndexedBlocks(client, schema));
    return this.guardCommits(schema);
  }

  /** @returns false while Ponder has not created its tables */
  guardCommits(schema: string): Promise<boolean> {
    return guardCommits(this.#connection, schema, this.#timeline);
  }

  /**
   * True if the connection was lost since the run began. A standby may have taken over without Ponder's newest commits;
   * the next commit would leave a gap.
   */
  get hasLostConnection(): boolean {
    return this.#connection.wasLost;
  }

  /** @returns the index that a shard's views show, or null if the shard has no views yet */
  async findServedSchema(shard: string): Promise<string | null> {
    const { rows } = await this.#connection.query("select schema from indexer.shard where name = $1", [shard]);
    return rows[0]?.schema ?? null;
  }

  /**
   * Serves each chain of an index from its stored head on: readers may have seen that block, and see no earlier one. An
   * index that is far behind has to be proven again.
   */
  async serveFromHeads(schema: string): Promise<void> {
    await this.#connection.query(
      `update indexer.chain set serve_from = newest_number,
         verified_number = case when newest_number - reached_number <= $2 then verified_number end where schema = $1`,
      [schema, MAX_UNPROVEN_BLOCKS],
    );
  }

  async countRestart(schema: string, chainId: number): Promise<void> {
    const count = "update indexer.chain set restarts = restarts + 1 where schema = $1 and chain_id = $2";
    await this.#connection.query(count, [schema, chainId]);
  }

  /** Removes all that an index and Ponder's cache have of a chain after a block. */
  rewindChain(schema: string, block: ValidBlock): Promise<void> {
    return this.#connection.runTransaction((client) => {
      const patient: Queryable = {
        query: (text, values) => client.query({ text, values, query_timeout: REWIND_TIMEOUT_MS } as pg.QueryConfig),
      };
      return rewindChain(patient, schema, block);
    });
  }

  /**
   * Moves a shard's views to an index in one step, once Ponder has indexed its history and the connection was not lost.
   * An index that replaces another one has to be as fresh on every chain. Otherwise each chain appears when it has caught
   * up, so a chain that is stuck does not hide the others.
   * @param heads the chains' newest blocks when Ponder started
   * @returns true if the views show the index now
   */
  async serve(shard: string, schema: string, heads: Heads): Promise<boolean> {
    const served = await this.findServedSchema(shard);
    const isFresh = (client: Queryable) =>
      served === null || served === schema ? isPonderReady(client, schema) : hasCaughtUp(client, schema, heads, served);
    if (!(await isFresh(this.#connection))) return false;

    return this.#connection
      .runTransaction(async (client) => {
        await client.query(YIELD_TO_READERS);
        // Even if they show this index already: an earlier version may have defined them differently.
        await replaceViews(client, shard, schema);
        // Again, now that readers wait: no reader may have seen a newer block than the views show next.
        if (!(await isFresh(client)) || this.hasLostConnection) throw new FellBehindError();
        await client.query(
          `insert into indexer.shard (name, schema, caught_up, since) values ($1, $2, true, now())
           on conflict (name) do update set schema = excluded.schema, caught_up = true, since = excluded.since`,
          [shard, schema],
        );
        return true;
      })
      .catch((error) => {
        if (error instanceof FellBehindError) return false;
        throw error;
      });
  }

  /** Brings the schema "analytics" up to date with all shards of the database. */
  async updateAnalytics(): Promise<void> {
    await this.#connection.runTransaction(async (client) => {
      await client.query(YIELD_TO_READERS);
      await updateAnalytics(client);
    });
  }

  /**
   * Drops a shard's indexes that are older than the served one, except those that an indexer still holds.
   * @returns the dropped schemas
   */
  async dropSuperseded(shard: string): Promise<string[]> {
    const { rows } = await this.#connection.query<{ schema: string }>(
      `select old.schema from indexer.index old
       join indexer.shard on shard.name = old.shard
       join indexer.index served on served.schema = shard.schema
       where old.shard = $1 and old.started_at < served.started_at`,
      [shard],
    );
    const dropped: string[] = [];
    for (const { schema } of rows) {
      await createLock(this.#connection, schema);
      await this.#connection.runTransaction(async (client) => {
        if (!(await tryLock(client, schema)) || (await isServed(client, schema))) return;
        await client.query(YIELD_TO_READERS);
        await client.query(`drop schema if exists ${pg.escapeIdentifier(schema)} cascade`);
        await client.query("delete from indexer.index where schema = $1", [schema]);
        await dropLock(client, schema);
        dropped.push(schema);
      });
    }
    return dropped;
  }
}

const isServed = async (client: Queryable, schema: string): Promise<boolean> => {
  const { rowCount } = await client.query("select from indexer.shard where schema = $1", [schema]);
  return rowCount !== 0;
};
