import { setTimeout as sleep } from "node:timers/promises";
import { describeError, type Log } from "../../process/program.ts";
import { IndexerConnection } from "./connection.ts";

const INTERVAL_MS = 2_000;

/**
 * Ends sessions of analysts with a long transaction, and those with an advisory lock, which Ponder takes when it starts.
 * Analysts are the roles that the indexer's role is a member of and that read "analytics" but not "indexer". An analyst
 * can change none of that. It can change the settings of its role and session, so they are not read. `set role` does not
 * change usesysid. A superuser has the rights of all roles, also of those that `npm run roles` has not created.
 */
const END_LONG_READERS = `
  select pg_terminate_backend(session.pid)
  from pg_stat_activity session
  join pg_roles indexer on indexer.rolname = current_user and not indexer.rolsuper
  where session.datname = current_database()
    and pg_has_role(session.usesysid, 'usage')
    and has_schema_privilege(session.usesysid, to_regnamespace('analytics')::oid, 'usage')
    and not has_schema_privilege(session.usesysid, to_regnamespace('indexer')::oid, 'usage')
    and (
      session.xact_start < clock_timestamp() - $1 * interval '1 second'
      or exists (select from pg_locks where pg_locks.pid = session.pid and locktype = 'advisory')
    )`;

type Options = {
  databaseUrl: string;
  /** Maximum duration of an analyst's transaction. */
  maxSeconds: number;
  log: Log;
};

/**
 * Ends sessions of analysts that could stop an indexer, until it is stopped: their locks block reorgs. Has its own
 * connection, because the indexer's other statements may be waiting for those locks. Logs errors, and continues.
 */
export const startEndingLongReaders = ({ databaseUrl, maxSeconds, log }: Options): { stop: () => Promise<void> } => {
  const stopping = new AbortController();
  const connection = new IndexerConnection(databaseUrl);
  const run = async () => {
    let lastFailure: string | undefined;
    while (!stopping.signal.aborted) {
      try {
        await connection.query(END_LONG_READERS, [maxSeconds]);
        lastFailure = undefined;
      } catch (error) {
        if (stopping.signal.aborted) return;
        const failure = describeError(error);
        // Log a lasting failure once.
        if (failure !== lastFailure) log(`Cannot end long transactions of analysts: ${failure}`, "error");
        lastFailure = failure;
      }
      await sleep(INTERVAL_MS, undefined, { signal: stopping.signal }).catch(() => {});
    }
  };
  run();
  return {
    stop: () => {
      stopping.abort();
      return connection.close();
    },
  };
};
