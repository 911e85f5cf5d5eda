import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { PassThrough } from "node:stream";
import { describe } from "vitest";
import { startNode } from "../../process/child.ts";

/** Folder of the project. */
export const ROOT = join(import.meta.dirname, "../..");

/** True in `npm run test:nightly`, which runs the same tests with more operations, rows, seeds or minutes. */
export const isNightly = process.env.NIGHTLY === "1";

/** Captures the output of a process. */
export const captureOutput = () => {
  const chunks: string[] = [];
  const output = new PassThrough();
  output.on("data", (chunk: Buffer) => chunks.push(chunk.toString()));
  return { output, printed: () => chunks.join("") };
};

/** Runs a script of this project to its end, and prints its output. */
export const runScript = async (script: string, ...args: string[]) => {
  const { output, printed } = captureOutput();
  const { code } = await startNode(join(ROOT, script), args, { env: process.env, output }).exited;
  console.log(printed());
  return { code, output: printed() };
};

const isProgram = (file: string): boolean => {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};

/** Folder of servers, which is not in every user's PATH. */
const SERVERS = "/usr/sbin";

/** Finds the path of the first of these programs that is installed; null if none is. */
export const findProgram = (...names: string[]): string | null => {
  const directories = [...(process.env.PATH ?? "").split(delimiter), SERVERS];
  return names.flatMap((name) => directories.map((directory) => join(directory, name))).find(isProgram) ?? null;
};

/** Describes tests that need programs. If one is missing they are skipped, and the title names it. */
export const describeWithPrograms = (programs: readonly string[], title: string, tests: () => void) => {
  const missing = programs.filter((name) => findProgram(name) === null).join(" and ");
  describe.skipIf(missing !== "")(missing === "" ? title : `${title} [LEFT OUT: needs ${missing}]`, tests);
};

/** Renders what a program has written to a terminal: the lines that a user sees, without colors. */
export const renderScreen = (written: string): string[] => {
  const lines = [""];
  let [row, column] = [0, 0];
  for (const [, count = "", code, text = ""] of written.matchAll(TOKEN)) {
    const distance = Number(count || 1);
    if (code === "A") row = Math.max(0, row - distance);
    else if (code === "B") row += distance;
    else if (code === "G" || text === "\r") column = 0;
    else if (code === "K") lines[row] = count === "2" ? "" : (lines[row] ?? "").slice(0, column);
    else if (text === "\n") [row, column] = [row + 1, 0];
    else if (text) {
      const line = (lines[row] ?? "").padEnd(column);
      lines[row] = line.slice(0, column) + text + line.slice(column + text.length);
      column += text.length;
    }
  }
  return Array.from(lines, (line) => (line ?? "").trimEnd()).filter((line) => line !== "");
};

/** A control sequence, an end of line, or text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what this reads
const TOKEN = /\x1b\[\??(\d*)[;\d]*([A-Za-z])|([\r\n]|[^\x1b\r\n]+)/g;

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
