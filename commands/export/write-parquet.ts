import { stat } from "node:fs/promises";
import type { SchemaElement } from "hyparquet";
import { fileWriter, ParquetWriter } from "hyparquet-writer";
import pg from "pg";
import type { Progress, Rows } from "./rows.ts";

/** Maximum rows in memory. */
const ROWS_PER_GROUP = 10_000;

const { builtins } = pg.types;

/** Column types by Postgres type. All others are stored as text, including numbers of up to 78 digits. */
const COLUMN_TYPES: Readonly<Record<number, Partial<SchemaElement>>> = {
  [builtins.BOOL]: { type: "BOOLEAN" },
  [builtins.INT4]: { type: "INT32" },
  [builtins.INT8]: { type: "INT64" },
  [builtins.TIMESTAMPTZ]: { type: "INT64", converted_type: "TIMESTAMP_MILLIS" },
};
const TEXT_TYPE: Partial<SchemaElement> = { type: "BYTE_ARRAY", converted_type: "UTF8" };

/** The Parquet writer needs 64-bit integers as bigint. */
const PARSERS: pg.CustomTypesConfig = {
  getTypeParser: (id, format) => (id === builtins.INT8 ? BigInt : pg.types.getTypeParser(id, format)),
};

/**
 * Writes the rows in groups. Postgres materializes the result first, so that the tables are not locked
 * while the file is written.
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
    client.query<unknown[]>({ text: `fetch ${count} from export`, rowMode: "array", types: PARSERS });

  const { fields } = await fetchRows(0);
  const parquet = new ParquetWriter({
    writer: fileWriter(file),
    schema: [
      { name: "root", num_children: fields.length },
      ...fields.map(
        ({ name, dataTypeID }): SchemaElement => ({
          name,
          repetition_type: "OPTIONAL",
          ...(COLUMN_TYPES[dataTypeID] ?? TEXT_TYPE),
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
