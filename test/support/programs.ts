import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { describe } from "vitest";

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
