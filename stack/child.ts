import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import type { Writable } from "node:stream";

const EXIT_WITH_PARENT = join(import.meta.dirname, "exit-with-parent.mjs");
const GRACE_MS = 10_000;

type Exit = { code: number | null; signal: NodeJS.Signals | null };

export type Child = {
  pid: number;
  /** Resolves when the process has ended, however it did. */
  exited: Promise<Exit>;
  /** Asks the process to end, and makes it end when it does not. */
  stop: () => Promise<void>;
};

type Options = {
  env: NodeJS.ProcessEnv;
  /** Where its output goes; by default to this process's own. */
  output?: Writable | undefined;
};

/**
 * Starts a Node program, JavaScript or TypeScript, as a child that ends with this process. It has a process group of its own,
 * so that Ctrl-C reaches only this process, which then ends its children in the right order.
 */
export const startNode = (script: string, args: readonly string[], { env, output }: Options): Child => {
  // A script that is not ours may use what its libraries deprecate: not for our users to read.
  const loader = script.endsWith(".ts") ? ["--import", "tsx"] : ["--no-deprecation"];
  const child: ChildProcess = spawn(process.execPath, [...loader, "--import", EXIT_WITH_PARENT, script, ...args], {
    detached: true,
    env,
    stdio: ["ignore", output ? "pipe" : "inherit", output ? "pipe" : "inherit", "ipc"],
  });
  if (child.pid === undefined) throw new Error(`Cannot start ${script}.`);
  const { pid } = child;

  if (output) {
    child.stdout?.pipe(output, { end: false });
    child.stderr?.pipe(output, { end: false });
  }

  let hasExited = false;
  const exited = new Promise<Exit>((resolve) => {
    child.once("exit", (code, signal) => {
      hasExited = true;
      resolve({ code, signal });
    });
  });

  return {
    pid,
    exited,
    stop: async () => {
      if (hasExited) return;
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), GRACE_MS);
      await exited;
      clearTimeout(timer);
    },
  };
};
