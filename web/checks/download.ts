import { ANSWER_COLUMNS, type Answer } from "./answers.ts";
import { formatCsv } from "./csv.ts";
import type { List } from "./read-list.ts";

/** Builds CSV of a list with its answers. Spreadsheets do not read tabs in a .csv file. */
export const buildDownload = (
  { columns, rows, separator }: Pick<List, "columns" | "rows" | "separator">,
  answers: readonly (Answer | undefined)[],
): string =>
  formatCsv(
    [
      [...columns, ...ANSWER_COLUMNS],
      ...rows.map(({ fields }, place) => [...fields, ...ANSWER_COLUMNS.map((name) => answers[place]?.[name] ?? "")]),
    ],
    separator === "\t" ? "," : separator,
  );
