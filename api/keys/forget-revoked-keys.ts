import { setTimeout as sleep } from "node:timers/promises";
import type { Database } from "../database/database.ts";
import { Problem } from "../problem.ts";
import { deleteRevokedKeys } from "./api-keys.ts";

const INTERVAL_MS = 3_600_000;

/** Deletes keys that were revoked long ago, now and every hour, until the signal is aborted. */
export const forgetRevokedKeys = async (
  database: Database,
  signal: AbortSignal,
  onError: (error: unknown) => void,
): Promise<void> => {
  while (!signal.aborted) {
    await deleteRevokedKeys(database).catch((error) => {
      // The database logs that it is unreachable.
      if (!(error instanceof Problem)) onError(error);
    });
    await sleep(INTERVAL_MS, undefined, { signal, ref: false }).catch(() => {});
  }
};
