import type { Check } from "../../client/src/index.ts";
import { ANSWER_COLUMNS } from "./answers.ts";
import { type CsvRow, parseCsv, parseSafeText } from "./csv.ts";
import { type Cells, CHECK_COLUMNS, type CheckColumn, type KnownNetwork, readCheck } from "./read-check.ts";

export type LineProblem = { line: number; problem: string };

/** A line of the list: its fields, one for each column, and its check or what is wrong with it. */
export type ListRow = CsvRow & ({ check: Check; problem: null } | { check: null; problem: string });

export type List = {
  separator: string;
  columns: readonly string[];
  rows: readonly ListRow[];
  /** Problems of the list as a whole: it cannot be read. */
  errors: readonly LineProblem[];
};

/** Reads a list of checks. The first row names the columns. */
export const readList = (text: string, networks: readonly KnownNetwork[] | null): List => {
  const { separator, rows, openQuoteLine } = parseCsv(text);
  const [first = { line: 1, fields: [] }, ...lines] = rows;
  const isDownload = hasAnswers(first.fields);
  // The answers of an earlier download are replaced.
  const columns = isDownload ? first.fields.slice(0, -ANSWER_COLUMNS.length) : first.fields;
  const places = findPlaces(columns);
  const problems = findHeaderProblems(columns, places);
  const errors = problems.map((problem) => ({ line: first.line, problem }));
  if (openQuoteLine !== null) errors.push({ line: openQuoteLine, problem: "A quoted field has no closing quote." });
  else if (lines.length === 0) errors.push({ line: first.line, problem: "There is no line with a check." });
  for (const { line, fields } of lines) {
    const names = first.fields.length;
    const isLonger = fields.slice(names).some((field) => field.trim() !== "");
    if (isLonger) errors.push({ line, problem: `It has ${fields.length} fields for ${names} columns.` });
  }

  const readRow = ({ line, fields }: CsvRow): ListRow => {
    const row = {
      line,
      fields: columns.map((_, place) => (isDownload ? parseSafeText(fields[place] ?? "") : (fields[place] ?? ""))),
    };
    const read = readCheck(readCells(row.fields, places), networks);
    return "check" in read ? { ...row, ...read, problem: null } : { ...row, ...read, check: null };
  };
  return { separator, columns, rows: problems.length > 0 ? [] : lines.map(readRow), errors };
};

const hasAnswers = (columns: readonly string[]): boolean =>
  columns.slice(-ANSWER_COLUMNS.length).join() === ANSWER_COLUMNS.join();

/** Other spellings of a column, such as token_id. */
const normalize = (name: string): string => name.replace(/[\s_-]/g, "").toLowerCase();

const COLUMN_NAMES = new Map(CHECK_COLUMNS.map((name) => [normalize(name), name]));

const findPlaces = (columns: readonly string[]): ReadonlyMap<CheckColumn, number> =>
  new Map(
    columns.flatMap((column, place) => {
      const name = COLUMN_NAMES.get(normalize(column));
      return name ? [[name, place]] : [];
    }),
  );

const findHeaderProblems = (columns: readonly string[], places: ReadonlyMap<CheckColumn, number>): string[] => {
  const has = (...names: CheckColumn[]) => names.some((name) => places.has(name));
  const problems = [...places]
    .filter(([name, last]) => columns.findIndex((column) => normalize(column) === normalize(name)) !== last)
    .map(([name]) => `Two columns are named ${name}.`);
  if (has("to", "delegate") && has("from", "vault")) return problems;
  return ["The first line must name the columns, with to (or delegate) and from (or vault) among them.", ...problems];
};

const readCells = (fields: readonly string[], places: ReadonlyMap<CheckColumn, number>): Cells => {
  const cells: Cells = {};
  for (const [name, place] of places) {
    const text = fields[place]?.trim();
    if (text) cells[name] = text;
  }
  return cells;
};

/** Explains why no answer can be given for a block, in the words of the API. Returns null if it can. */
export const explainBlock = (block: string, { rows }: List): string | null => {
  if (block === "" || block === "finalized") return null;
  if (!/^\d{1,15}$/.test(block)) return "block must be a block number in decimal digits, or finalized.";
  const chains = new Set(rows.flatMap(({ check }) => check?.chainId ?? []));
  if (chains.size < 2) return null;
  return "block must not be a number with checks on several networks: it is another time on each.";
};
