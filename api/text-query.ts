import type pg from "pg";

export type Query = { name: string; text: string; values: readonly (string | number | null)[] };

/** A row as Postgres writes it: every column a text, or null. */
export type TextRow = readonly (string | null)[];

declare module "pg" {
  /** What pg's client keeps of the statements that a connection has prepared, by their names. */
  interface Connection {
    parsedStatements: Record<string, string | undefined>;
    submittedNamedStatements: Record<string, string | undefined>;
  }
}

type Callback = (error: Error | null, rows?: TextRow[]) => void;

/**
 * A prepared statement whose columns are known. pg's own query asks Postgres to describe the result each
 * time, and makes parsers and templates of rows from that, which takes longer than the answer to a check.
 * It is submitted to pg's client as its cursors and streams are.
 */
export class TextQuery implements pg.Submittable {
  /** By these two pg's client remembers what a connection has prepared. */
  readonly name: string;
  readonly text: string;
  readonly #values: readonly (string | null)[];
  readonly #rows: TextRow[] = [];
  callback: Callback;

  constructor({ name, text, values }: Query, callback: Callback) {
    this.name = name;
    this.text = text;
    this.#values = values.map((value) => (typeof value === "number" ? String(value) : value));
    this.callback = callback;
  }

  submit(connection: pg.Connection): void {
    const { name, text } = this;
    connection.stream.cork();
    if (!connection.parsedStatements[name] && !connection.submittedNamedStatements[name]) {
      connection.parse({ name, text, types: [] }, true);
      connection.submittedNamedStatements[name] = text;
    }
    connection.bind({ statement: name, values: [...this.#values] }, true);
    connection.execute(null, true);
    connection.sync();
    connection.stream.uncork();
  }

  handleDataRow({ fields }: { fields: TextRow }): void {
    this.#rows.push(fields);
  }

  handleReadyForQuery(): void {
    this.callback(null, this.#rows);
  }

  handleError(error: Error): void {
    this.callback(error);
  }

  /** What comes with every statement, and says nothing new. */
  handleCommandComplete(): void {}
  handleEmptyQuery(): void {}
}
