import { readFileSync } from "node:fs";
import { join } from "node:path";
import { startNode } from "../../stack/child.ts";
import { keepOutput } from "./output.ts";

/** `npm run export`. */
export const startExport = (databaseUrl: string, ...args: string[]) => {
  const { output, printed } = keepOutput();
  const child = startNode(join(import.meta.dirname, "../../export/main.ts"), args, {
    output,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, DATABASE_URL: databaseUrl },
  });
  return { ...child, output: printed };
};

/** The same, to its end. */
export const runExport = async (databaseUrl: string, ...args: string[]) => {
  const { exited, output } = startExport(databaseUrl, ...args);
  const { code } = await exited;
  return { code, output: output() };
};

/** The most memory that a process has had so far, in MB. */
export const peakMemory = (pid: number): number => {
  try {
    return Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1000;
  } catch {
    return 0;
  }
};

/** The cells of a table in CSV, by line; null where there is nothing, not even quotes. */
export const parseCsv = (text: string): (string | null)[][] =>
  text
    .trimEnd()
    .split("\n")
    .map((line) =>
      [...line.matchAll(/(?:^|,)(?:"((?:[^"]|"")*)"|([^,]*))/g)].map(
        ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? (plain || null),
      ),
    );
