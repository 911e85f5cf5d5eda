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

/** Where servers are, which are not in everybody's path. */
const SERVERS = "/usr/sbin";

/** The first of these programs that the machine has, by its path; null where it has none. */
export const findProgram = (...names: string[]): string | null => {
  const directories = [...(process.env.PATH ?? "").split(delimiter), SERVERS];
  return names.flatMap((name) => directories.map((directory) => join(directory, name))).find(isProgram) ?? null;
};

/** Tests that need programs. Where one is missing they are left out, and the line of each says why. */
export const describeWith = (programs: readonly string[], title: string, tests: () => void) => {
  const missing = programs.filter((name) => findProgram(name) === null).join(" and ");
  describe.skipIf(missing !== "")(missing === "" ? title : `${title} [LEFT OUT: needs ${missing}]`, tests);
};
