import { spawn } from "node:child_process";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { findFreePort, isPortFree } from "../../stack/ports.ts";
import { UNLIMITED } from "./api.ts";
import { runningProcesses } from "./processes.ts";
import { until } from "./setup.ts";

const ROOT = join(import.meta.dirname, "../..");

/**
 * The folder of a test file's sandboxes. Each file needs its own, as one sandbox at a time may use a
 * folder, and a developer may be running another one meanwhile.
 */
export const sandboxFolder = (name: string): string => join(ROOT, `.data/sandbox-${name}`);

/** `npm run dev` in a folder, until the test is over. */
export const startDev = async (folder: string, env: NodeJS.ProcessEnv = {}) => {
  const dev = await launchDev(folder, env);
  onTestFinished(() => dev.stop());
  return dev;
};

/**
 * The same for several tests of a file: who asks for it stops it. As from a terminal: in a process
 * group that Ctrl-C reaches as a whole.
 */
export const launchDev = async (folder: string, env: NodeJS.ProcessEnv = {}) => {
  const indexerPort = await findFreePort();
  const apiPort = await findFreePort();
  const metricsPort = await findFreePort();
  let chainPort = await findFreePort();
  while ([indexerPort, apiPort, metricsPort].includes(chainPort + 1) || !(await isPortFree("127.0.0.1", chainPort + 1)))
    chainPort = await findFreePort();
  const child = spawn("npm", ["run", "dev"], {
    cwd: ROOT,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      ...process.env,
      SANDBOX_DATA: folder,
      SANDBOX_PORT: String(chainPort),
      INDEXER_PORT: String(indexerPort),
      PORT: String(apiPort),
      METRICS_PORT: String(metricsPort),
      ...UNLIMITED,
      ...env,
    },
  });
  let output = "";
  child.stdout.on("data", (chunk) => {
    output += chunk;
  });
  child.stderr.on("data", (chunk) => {
    output += chunk;
  });
  const exited = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)));
  const signal = (name: NodeJS.Signals) => process.kill(-(child.pid ?? 0), name);
  return {
    ports: [chainPort, chainPort + 1, indexerPort, apiPort],
    chainPort,
    indexerPort,
    apiPort,
    exited,
    signal,
    stop: async () => {
      if (child.exitCode === null && child.signalCode === null) signal("SIGTERM");
      await exited;
    },
    output: () => output,
    databaseUrl: () => /postgres:\/\/\S+/.exec(output)?.[0] ?? "",
    untilReady: (seconds = 60) => until("the sandbox is ready", async () => /^Ready after/m.test(output), seconds),
  };
};

export type Dev = Awaited<ReturnType<typeof launchDev>>;

/** The processes that were started with a sandbox's folder in their environment or arguments. */
export const sandboxProcesses = (folder: string): string[] =>
  runningProcesses()
    .filter(({ pid, command, environment }) => pid !== process.pid && `${command}${environment}`.includes(folder))
    .map(({ command }) => command);
