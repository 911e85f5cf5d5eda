import { join } from "node:path";
import { startNode } from "../../stack/child.ts";
import { keepOutput } from "./output.ts";

const ROOT = join(import.meta.dirname, "../..");

/** Runs a script of this project to its end, and prints what it printed. */
export const runScript = async (script: string, ...args: string[]) => {
  const { output, printed } = keepOutput();
  const { code } = await startNode(join(ROOT, script), args, { env: process.env, output }).exited;
  console.log(printed());
  return { code, output: printed() };
};
