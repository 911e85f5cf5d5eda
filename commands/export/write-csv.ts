import { open } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { to } from "pg-copy-streams";
import type { Progress, Rows } from "./rows.ts";

/** Copies the table to a file. Postgres formats it. */
export const writeCsv = async (
  { client, query }: Rows,
  file: string,
  signal: AbortSignal,
  onProgress: Progress,
): Promise<{ rows: number; bytes: number }> => {
  // Open the file first: a stream that opens it later could create it after the caller has removed it.
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
