import { spawn } from "node:child_process";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { findFreePort, isPortFree } from "../../process/ports.ts";
import { UNLIMITED } from "./api.ts";
import { listProcesses } from "./processes.ts";
import { captureOutput, ROOT } from "./run.ts";
import { waitUntil } from "./setup.ts";

/** Returns the folder of a test file's sandboxes. Only one sandbox at a time may use it. */
export const resolveSandboxFolder = (name: string): string => join(ROOT, `.data/sandbox-${name}`);

/** Starts `npm run dev` in a folder until the test is over. */
export const startDev = async (folder: string, env: NodeJS.ProcessEnv = {}) => {
  const dev = await launchDev(folder, env);
  onTestFinished(() => dev.stop());
  return dev;
};

/** Launches `npm run dev` in its own process group, which gets signals as from a terminal. The caller stops it. */
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
  const { output, printed } = captureOutput();
  child.stdout.pipe(output, { end: false });
  child.stderr.pipe(output, { end: false });
  const exited = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)));
  const ended = exited.then(() => {
    throw new Error(`npm run dev ended:\n${printed()}`);
  });
  ended.catch(() => {});
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
    output: printed,
    databaseUrl: () => /postgres:\/\/\S+/.exec(printed())?.[0] ?? "",
    /** Takes 15 s on an idle machine. */
    untilReady: () =>
      Promise.race([waitUntil("the sandbox is ready", printed, 240, (text) => /^Ready after/m.test(text)), ended]),
  };
};

export type Dev = Awaited<ReturnType<typeof launchDev>>;

/** Lists the processes with a sandbox's folder in their environment or arguments. */
export const listSandboxProcesses = (folder: string): string[] =>
  listProcesses()
    .filter(({ pid, command, environment }) => pid !== process.pid && `${command}${environment}`.includes(folder))
    .map(({ command }) => command);
