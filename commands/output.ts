// The output of commands with several subcommands.

export type Output = {
  /** Prints a result for programs, to stdout. */
  print: (text: string) => void;
  /** Prints a message for people, to stderr. */
  say: (text: string) => void;
};

export const formatMinute = (date: Date) => date.toISOString().slice(0, 16).replace("T", " ");

export const printTable = (
  print: Output["print"],
  head: readonly string[],
  rows: readonly (readonly string[])[],
): void => {
  const all = [head, ...rows];
  const widths = head.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  for (const row of all) {
    print(
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join("  ")
        .trimEnd(),
    );
  }
};
