/** Formats rows like psql, to compare them with a document. */
export const printTable = (names: readonly string[], rows: readonly (readonly (string | null)[])[]): string => {
  const widths = names.map((name, column) => Math.max(name.length, ...rows.map((row) => (row[column] ?? "").length)));
  const line = (cells: readonly (string | null)[]) =>
    cells
      .map((cell, column) => ` ${(cell ?? "").padEnd(widths[column] ?? 0)} `)
      .join("|")
      .trimEnd();
  const rule = widths.map((width) => "-".repeat(width + 2)).join("+");
  return [line(names), rule, ...rows.map(line)].join("\n");
};
