import { open, rename, rm } from "node:fs/promises";
import pg from "pg";
import type { ExportRequest } from "./request.ts";
import type { Progress } from "./rows.ts";
import { writeCsv } from "./write-csv.ts";
import { writeParquet } from "./write-parquet.ts";

const CONNECT_TIMEOUT_MS = 10_000;

/** Postgres error codes of the indexer's functions, whose messages are for people. */
const REFUSALS = ["22023", "55000"];
/** Postgres error codes if these functions do not exist. */
const UNDEFINED = ["3F000", "42883", "42P01"];

export type Exported = { file: string; block: string; finalBlock: string; rows: number; bytes: number };

/**
 * Writes a file completely or not at all: an incomplete file has another name.
 * @param signal - cancels the export
 */
export const exportDelegations = async (
  databaseUrl: string,
  { format, what, chainId, block, out }: ExportRequest,
  signal: AbortSignal,
  onProgress: Progress,
): Promise<Exported> => {
  const client = new pg.Client({
    connectionString: databaseUrl,
    application_name: "export",
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
  client.on("error", () => {});
  // Closing the connection also cancels a running statement.
  const cancel = () => client.connection.stream.destroy();
  try {
    await client.connect();
    signal.addEventListener("abort", cancel);
    await client.query("begin isolation level repeatable read read only");
    await client.query("set local timezone = 'UTC'; set local datestyle = 'ISO'; set statement_timeout = 0");
    const { at, finalBlock } = await findBlock(client, chainId, block);
    const file = out ?? `${what}-${chainId}-${at}.${format}`;
    const draft = `${file}.part-${process.pid}`;
    const notes = { what, chain_id: String(chainId), block: at, final_block: finalBlock };
    const rows = { client, query: buildQuery(what, chainId, at), notes };
    try {
      const written = await (format === "csv" ? writeCsv : writeParquet)(rows, draft, signal, onProgress);
      signal.throwIfAborted();
      await syncToDisk(draft);
      await rename(draft, file);
      return { file, block: at, finalBlock, ...written };
    } finally {
      await rm(draft, { force: true });
    }
  } catch (error) {
    signal.throwIfAborted();
    throw explainDatabaseError(error);
  } finally {
    signal.removeEventListener("abort", cancel);
    await client.end().catch(() => {});
  }
};

/** Finds the block of the rows, in the transaction that reads them. */
const findBlock = async (
  client: pg.Client,
  chainId: number,
  block: number | null,
): Promise<{ at: string; finalBlock: string }> => {
  const { rows } = await client.query<{ at: string; final_block: string }>(
    `select analytics.known_block($1, null, $2)::text as at, final_block::text
     from (select) one left join analytics.chains on chain_id = $1`,
    [chainId, block],
  );
  return { at: rows[0]?.at ?? "", finalBlock: rows[0]?.final_block ?? "" };
};

const buildQuery = (what: ExportRequest["what"], chainId: number, block: string): string =>
  what === "changes"
    ? `select * from analytics.changes where chain_id = ${chainId} and block_number <= ${BigInt(block)}
       order by block_number, log_index, ordinal`
    : `select * from analytics.delegations_at(${chainId}, ${BigInt(block)})
       order by block_number, log_index, registry, vault, delegate, type, token_standard, contract, token_id, rights`;

const syncToDisk = async (file: string): Promise<void> => {
  const handle = await open(file, "r+");
  await handle.sync().finally(() => handle.close());
};

const explainDatabaseError = (error: unknown): unknown => {
  if (!(error instanceof pg.DatabaseError)) return error;
  if (REFUSALS.includes(error.code ?? "")) return new Error([error.message, error.hint].filter(Boolean).join(". "));
  if (UNDEFINED.includes(error.code ?? "")) {
    return new Error('This database has no schema "analytics": an indexer creates it when it has caught up.', {
      cause: error,
    });
  }
  return error;
};
