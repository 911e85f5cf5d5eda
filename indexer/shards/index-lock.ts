import { setTimeout as sleep } from "node:timers/promises";
import { createLock, tryLock } from "./locks.ts";
import type { Queryable } from "./queryable.ts";

const RETAKE_TIMEOUT_MS = 2_000;
const RETAKE_WAIT_MS = 50;

/** Another process holds the lock of the index. */
export class IndexTakenError extends Error {
  override name = "IndexTakenError";

  constructor(schema: string) {
    super(`Another indexer is running the same index (${schema}). End one, or give it another SHARD.`);
  }
}

/**
 * Starts a transaction that holds the lock of an index for the life of the connection. It has no snapshot and no
 * transaction id, so it does not hold back vacuum.
 */
const takeIndexLock = async (client: Queryable, schema: string): Promise<void> => {
  await client.query("begin");
  // Postgres may be set to end idle and long transactions. Only Postgres 17 and newer have the second setting.
  await client.query(
    `select set_config(name, '0', true) from pg_settings
     where name in ('idle_in_transaction_session_timeout', 'transaction_timeout')`,
  );
  // Postgres releases the lock of a machine that is gone within a minute.
  await client.query(
    "set local tcp_keepalives_idle = 30; set local tcp_keepalives_interval = 10; set local tcp_keepalives_count = 3",
  );
  if (await tryLock(client, schema)) return;
  await client.query("rollback");
  throw new IndexTakenError(schema);
};

/** Takes the lock of an index. Postgres may take a moment to release the lock of a lost connection. */
export const holdIndexLock = async (client: Queryable, schema: string): Promise<void> => {
  for (const deadline = Date.now() + RETAKE_TIMEOUT_MS; ; await sleep(RETAKE_WAIT_MS)) {
    try {
      // Again each time: an indexer that drops the index drops its lock too.
      await createLock(client, schema);
      return await takeIndexLock(client, schema);
    } catch (error) {
      if (!(error instanceof IndexTakenError) || Date.now() > deadline) throw error;
    }
  }
};
