/** A row, with the number of the line on which it starts. */
export type CsvRow = { line: number; fields: readonly string[] };

export type Csv = {
  separator: string;
  /** Without blank rows. */
  rows: readonly CsvRow[];
  /** Line of a quoted field that has no end: the rows from there on are missing. */
  openQuoteLine: number | null;
};

/** Parses CSV as in RFC 4180, separated by commas, semicolons or tabs, with any line breaks. */
export const parseCsv = (text: string): Csv => {
  const source = text.replace(/^\ufeff/, "");
  const separator = findSeparator(source);
  const pattern = createFieldPattern(separator);
  const rows: CsvRow[] = [];
  let fields: string[] = [];
  let line = 1;
  let firstLine = 1;
  for (;;) {
    const [, quoted, closingQuote, rest = "", plain = "", end] = pattern.exec(source) ?? [];
    if (quoted !== undefined && closingQuote === "") return { separator, rows, openQuoteLine: line };
    fields.push(quoted === undefined ? plain : quoted.replaceAll('""', '"') + rest);
    line += quoted?.match(/\r\n|[\r\n]/g)?.length ?? 0;
    if (end === separator) continue;
    if (fields.some((field) => field.trim() !== "")) rows.push({ line: firstLine, fields });
    if (pattern.lastIndex === source.length) return { separator, rows, openQuoteLine: null };
    fields = [];
    line++;
    firstLine = line;
  }
};

/** Finds the separator with the most occurrences in the first row. */
const findSeparator = (source: string): string => {
  const [firstRow = ""] = /^(?:"[^"]*"?|[^"\r\n]+)*/.exec(source.trimStart()) ?? [];
  const unquoted = firstRow.replace(/"[^"]*"?/g, "");
  const count = (separator: string) => unquoted.split(separator).length;
  return [",", ";", "\t"].reduce((best, other) => (count(other) > count(best) ? other : best));
};

/** Matches a quoted field (its content, its closing quote, text after it) or a plain one, and then its end. */
const createFieldPattern = (separator: string): RegExp => {
  const plain = `([^${separator}\\r\\n]*)`;
  return new RegExp(`(?: *"([^"]*(?:""[^"]*)*)("?)${plain}|${plain})(${separator}|\\r\\n|[\\r\\n]|$)`, "y");
};

export const formatCsv = (rows: readonly (readonly string[])[], separator: string): string =>
  rows.map((fields) => `${fields.map(formatField).join(separator)}\r\n`).join("");

const formatField = (text: string): string => {
  const safe = isFormula(text) ? `'${text}` : text;
  return /[",;\t\r\n]|^\s|\s$/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

/** Reads a text that formatCsv() has written: it puts an apostrophe before a formula. */
export const parseSafeText = (text: string): string => (isFormula(text.slice(1)) ? text.replace(/^'/, "") : text);

/** Spreadsheets run a text that starts like this, unless it is a number. */
const isFormula = (text: string): boolean =>
  /^[=+\-@\t\r\n]/.test(text) && !/^[+-]?(\d+([.,]\d+)?|0x[0-9a-f]+)$/i.test(text);
