import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import type { Writable } from "node:stream";

const EXIT_WITH_PARENT = join(import.meta.dirname, "exit-with-parent.mjs");
const GRACE_MS = 10_000;

type Exit = { code: number | null; signal: NodeJS.Signals | null };

export type Child = {
  pid: number;
  /** Resolves when the process has exited, for whatever reason. */
  exited: Promise<Exit>;
  /** Sends SIGTERM, then SIGKILL after a grace period. */
  stop: () => Promise<void>;
};

type Options = {
  env: NodeJS.ProcessEnv;
  /** Receives stdout and stderr; by default the child inherits this process's. */
  output?: Writable | undefined;
};

/**
 * Starts a Node program, JavaScript or TypeScript, as a child that exits with this process. The child has its own process
 * group: Ctrl-C reaches only this process, which then stops its children in the right order.
 */
export const startNode = (script: string, args: readonly string[], { env, output }: Options): Child => {
  // JavaScript is third-party code here. Our users cannot act on its deprecation warnings.
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
