import { cpus, platform, release, totalmem } from "node:os";
import type { Comparison } from "./comparison.ts";
import type { Figures } from "./rounds.ts";

/** Figures of one subject and their comparisons with baselines. */
export type Case = {
  name: string;
  figures: Partial<Figures>;
  comparisons: readonly Comparison[];
  remark?: string;
};

const COLUMNS: readonly [title: string, figure: keyof Figures, digits: number][] = [
  ["requests/s", "requestsPerSecond", 0],
  ["p50 ms", "p50Ms", 2],
  ["p99 ms", "p99Ms", 2],
  ["API µs", "apiMicroseconds", 0],
  ["Postgres µs", "postgresMicroseconds", 0],
  ["MB", "memoryMegabytes", 0],
];

const format = (number: number, digits: number): string =>
  number.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });

const describe = ({ baseline, unit, ratio, target, isMet }: Comparison): string => {
  const wanted = "atLeast" in target ? `≥ ${target.atLeast}` : `≤ ${format(target.atMost, 2)}`;
  return `${isMet ? "✓" : "✗"} ${format(ratio, 2)} × ${baseline} (${wanted}, ${unit})`;
};

/** Renders the cases as a Markdown table that is also readable in a terminal. */
export const renderTable = (cases: readonly Case[]): string => {
  const rows = [
    ["case", ...COLUMNS.map(([title]) => title), "beside its baselines"],
    ...cases.map(({ name, figures, comparisons, remark }) => [
      name,
      ...COLUMNS.map(([, figure, digits]) => {
        const value = figures[figure];
        return value === undefined ? "" : format(value, digits);
      }),
      [...comparisons.map(describe), ...(remark ? [remark] : [])].join("; "),
    ]),
  ];
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  const isNumber = (column: number) => column > 0 && column <= COLUMNS.length;
  const line = (row: readonly string[]) =>
    `| ${row.map((cell, column) => (isNumber(column) ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0))).join(" | ")} |`;
  const rule = `|${widths.map((width, column) => (isNumber(column) ? `${"-".repeat(width + 1)}:` : "-".repeat(width + 2))).join("|")}|`;
  const [head = [], ...others] = rows;
  return [line(head), rule, ...others.map(line)].join("\n");
};

export const describeMachine = () => ({
  processors: cpus().length,
  model: cpus()[0]?.model ?? "unknown",
  memoryGigabytes: Math.round(totalmem() / 2 ** 30),
  system: `${platform()} ${release()}`,
  node: process.version,
});
