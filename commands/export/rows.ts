import type pg from "pg";

/** Rows to write, from one snapshot. */
export type Rows = {
  client: pg.Client;
  query: string;
  /** Metadata of the file. */
  notes: Readonly<Record<string, string>>;
};

/** Called with the rows and bytes written so far. Rows are null for CSV, which Postgres writes: it counts them at the end. */
export type Progress = (written: { rows: number | null; bytes: number }) => void;
