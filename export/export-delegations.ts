import { open, rename, rm } from "node:fs/promises";
import pg from "pg";
import type { ExportRequest } from "./request.ts";
import { writeCsv } from "./write-csv.ts";
import { writeParquet } from "./write-parquet.ts";

const CONNECT_TIMEOUT_MS = 10_000;

/** What Postgres says where the indexer's functions refuse an answer, in words for people. */
const REFUSALS = ["22023", "55000"];
/** And where there are no such functions. */
const UNDEFINED = ["3F000", "42883", "42P01"];

/** The rows of a file, of one moment. */
export type Rows = {
  client: pg.Client;
  /** Whose rows are meant. */
  query: string;
  /** What is said of them. */
  notes: Readonly<Record<string, string>>;
};

/** Told of how many rows and bytes have been written. Of a table that Postgres writes, rows are known at the end. */
export type Progress = (written: { rows: number | null; bytes: number }) => void;

export type Exported = { file: string; block: string; finalBlock: string; rows: number; bytes: number };

/**
 * Writes a file, whole or not at all: until it is complete it has another name.
 * @param signal - gives it up
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
  // Also while Postgres is at work: the connection is all that keeps it at it.
  const giveUp = () => client.connection.stream.destroy();
  try {
    await client.connect();
    signal.addEventListener("abort", giveUp);
    await client.query("begin isolation level repeatable read read only");
    await client.query("set local timezone = 'UTC'; set local datestyle = 'ISO'; set statement_timeout = 0");
    const { at, finalBlock } = await findBlock(client, chainId, block);
    const file = out ?? `${what}-${chainId}-${at}.${format}`;
    const draft = `${file}.part-${process.pid}`;
    const notes = { what, chain_id: String(chainId), block: at, final_block: finalBlock };
    const rows = { client, query: queryOf(what, chainId, at), notes };
    try {
      const written = await (format === "csv" ? writeCsv : writeParquet)(rows, draft, signal, onProgress);
      signal.throwIfAborted();
      await settle(draft);
      await rename(draft, file);
      return { file, block: at, finalBlock, ...written };
    } finally {
      await rm(draft, { force: true });
    }
  } catch (error) {
    signal.throwIfAborted();
    throw explain(error);
  } finally {
    signal.removeEventListener("abort", giveUp);
    await client.end().catch(() => {});
  }
};

/** The block that the rows are of, in the transaction that they are read in. */
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

const queryOf = (what: ExportRequest["what"], chainId: number, block: string): string =>
  what === "changes"
    ? `select * from analytics.changes where chain_id = ${chainId} and block_number <= ${BigInt(block)}
       order by block_number, log_index, ordinal`
    : `select * from analytics.delegations_at(${chainId}, ${BigInt(block)})
       order by block_number, log_index, registry, vault, delegate, type, token_standard, contract, token_id, rights`;

/** Waits until a file is on the disk. */
const settle = async (file: string): Promise<void> => {
  const handle = await open(file, "r+");
  await handle.sync().finally(() => handle.close());
};

const explain = (error: unknown): unknown => {
  if (!(error instanceof pg.DatabaseError)) return error;
  if (REFUSALS.includes(error.code ?? "")) return new Error([error.message, error.hint].filter(Boolean).join(". "));
  if (UNDEFINED.includes(error.code ?? "")) {
    return new Error('This database has no schema "analytics": an indexer makes it, when it has caught up.', {
      cause: error,
    });
  }
  return error;
};
