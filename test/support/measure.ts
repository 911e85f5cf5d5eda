import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";

export const ROOT = join(import.meta.dirname, "../..");

/** Runs JavaScript in a process of its own, whose memory is nobody else's, and reads the JSON that it prints. */
export const measure = async (script: string) => {
  const flags = ["--expose-gc", "--import", "tsx", "--input-type=module", "--eval"];
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, script], { cwd: ROOT });
  return JSON.parse(stdout);
};
