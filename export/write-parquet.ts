import { stat } from "node:fs/promises";
import type { SchemaElement } from "hyparquet";
import { fileWriter, ParquetWriter } from "hyparquet-writer";
import pg from "pg";
import type { Progress, Rows } from "./export-delegations.ts";

/** All that is in memory at a time. */
const ROWS_PER_GROUP = 10_000;

const { builtins } = pg.types;

/** How a column is stored, by its type in Postgres; all others as text, numbers of up to 78 digits among them. */
const STORED: Readonly<Record<number, Partial<SchemaElement>>> = {
  [builtins.BOOL]: { type: "BOOLEAN" },
  [builtins.INT4]: { type: "INT32" },
  [builtins.INT8]: { type: "INT64" },
  [builtins.TIMESTAMPTZ]: { type: "INT64", converted_type: "TIMESTAMP_MILLIS" },
};
const AS_TEXT: Partial<SchemaElement> = { type: "BYTE_ARRAY", converted_type: "UTF8" };

/** As the writer wants them: whole numbers of 64 bits as bigint. */
const TYPES: pg.CustomTypesConfig = {
  getTypeParser: (id, format) => (id === builtins.INT8 ? BigInt : pg.types.getTypeParser(id, format)),
};

/**
 * Writes the rows in groups as they come. Postgres works the result out at once and keeps it, so that
 * the tables are free again by the time it is written.
 */
export const writeParquet = async (
  { client, query, notes }: Rows,
  file: string,
  signal: AbortSignal,
  onProgress: Progress,
): Promise<{ rows: number; bytes: number }> => {
  await client.query(`declare export no scroll cursor with hold for ${query}`);
  await client.query("commit");
  const fetchRows = (count: number) =>
    client.query<unknown[]>({ text: `fetch ${count} from export`, rowMode: "array", types: TYPES });

  const { fields } = await fetchRows(0);
  const parquet = new ParquetWriter({
    writer: fileWriter(file),
    schema: [
      { name: "root", num_children: fields.length },
      ...fields.map(
        ({ name, dataTypeID }): SchemaElement => ({
          name,
          repetition_type: "OPTIONAL",
          ...(STORED[dataTypeID] ?? AS_TEXT),
        }),
      ),
    ],
    kvMetadata: Object.entries(notes).map(([key, value]) => ({ key, value })),
  });
  let count = 0;
  for (;;) {
    signal.throwIfAborted();
    const { rows } = await fetchRows(ROWS_PER_GROUP);
    if (rows.length === 0) break;
    const columnData = fields.map(({ name }, column) => ({ name, data: rows.map((row) => row[column]) }));
    await parquet.write({ columnData, rowGroupSize: ROWS_PER_GROUP });
    count += rows.length;
    onProgress({ rows: count, bytes: (await stat(file)).size });
  }
  await parquet.finish();
  return { rows: count, bytes: (await stat(file)).size };
};
