import { join } from "node:path";
import { PassThrough } from "node:stream";
import { keysCommand } from "../../commands/keys/keys-command.ts";
import { startNode } from "../../process/child.ts";

/** Folder of the project. */
export const ROOT = join(import.meta.dirname, "../..");

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

type Outcome = { code: number; stdout: string; stderr: string };

/** Runs `npm run keys` in this process. */
export const runKeys = async (args: string[], databaseUrl: string): Promise<Outcome> => {
  const [stdout, stderr]: [string[], string[]] = [[], []];
  const code = await keysCommand(args, {
    environment: { DATABASE_URL: databaseUrl },
    print: (text) => stdout.push(text, "\n"),
    say: (text) => stderr.push(text, "\n"),
  });
  return { code, stdout: stdout.join(""), stderr: stderr.join("") };
};
