import { join } from "node:path";
import { startNode } from "../../process/child.ts";
import { captureOutput } from "./output.ts";
import { ROOT } from "./root.ts";

/** Runs a script of this project to its end, and prints its output. */
export const runScript = async (script: string, ...args: string[]) => {
  const { output, printed } = captureOutput();
  const { code } = await startNode(join(ROOT, script), args, { env: process.env, output }).exited;
  console.log(printed());
  return { code, output: printed() };
};
