import { createWriteStream } from "node:fs";
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
  const table = client.query(to(`copy (${query}) to stdout (format csv, header)`));
  let bytes = 0;
  const count = async function* (chunks: AsyncIterable<Buffer>) {
    for await (const chunk of chunks) {
      bytes += chunk.length;
      onProgress({ rows: null, bytes });
      yield chunk;
    }
  };
  await pipeline(table, count, createWriteStream(file), { signal });
  return { rows: table.rowCount, bytes };
};
