import { open } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { to } from "pg-copy-streams";
import type { Progress, Rows } from "./export-delegations.ts";

/** Postgres writes the table; here it only passes by. */
export const writeCsv = async (
  { client, query }: Rows,
  file: string,
  signal: AbortSignal,
  onProgress: Progress,
): Promise<{ rows: number; bytes: number }> => {
  // Opened before anything can fail: a stream that opens it by itself may do so after the caller has removed it.
  const output = await open(file, "w");
  const table = client.query(to(`copy (${query}) to stdout (format csv, header)`));
  let bytes = 0;
  const count = async function* (chunks: AsyncIterable<Buffer>) {
    for await (const chunk of chunks) {
      bytes += chunk.length;
      onProgress({ rows: null, bytes });
      yield chunk;
    }
  };
  await pipeline(table, count, output.createWriteStream(), { signal });
  return { rows: table.rowCount, bytes };
};
