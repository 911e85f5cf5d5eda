import { spawn } from "node:child_process";
import { chmod, cp, mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { startNode } from "../../process/child.ts";
import { findFreePort, isPortFree } from "../../process/ports.ts";
import { UNLIMITED } from "./api.ts";
import { listProcesses } from "./processes.ts";
import { captureOutput, ROOT } from "./run.ts";
import { waitUntil } from "./setup.ts";

// npm run dev.

/** Returns the folder of a test file's sandboxes. Only one sandbox at a time may use it. */
export const resolveSandboxFolder = (name: string): string => join(ROOT, `.data/sandbox-${name}`);

/** Starts `npm run dev` in a folder until the test is over. Its process group gets signals as from a terminal. */
export const startDev = async (folder: string, env: NodeJS.ProcessEnv = {}) => {
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
  onTestFinished(async () => {
    if (child.exitCode === null && child.signalCode === null) signal("SIGTERM");
    await exited;
  });
  return {
    ports: [chainPort, chainPort + 1, indexerPort, apiPort],
    chainPort,
    indexerPort,
    apiPort,
    exited,
    signal,
    output: printed,
    databaseUrl: () => /postgres:\/\/\S+/.exec(printed())?.[0] ?? "",
    /** Takes 15 s on an idle machine. */
    untilReady: () =>
      Promise.race([waitUntil("the sandbox is ready", printed, 240, (text) => /^Ready after/m.test(text)), ended]),
  };
};

export type Dev = Awaited<ReturnType<typeof startDev>>;

/** Lists the processes with a sandbox's folder in their environment or arguments. */
export const listSandboxProcesses = (folder: string): string[] =>
  listProcesses()
    .filter(({ pid, command, environment }) => pid !== process.pid && `${command}${environment}`.includes(folder))
    .map(({ command }) => command);

// npm start.

/** Runs `npm start` until the test is over, in a process group of its own. */
export const startStack = (env: NodeJS.ProcessEnv, project = ROOT) => {
  const { output, printed } = captureOutput();
  const child = startNode(join(project, "local/start.ts"), [], {
    output,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, HOST: "127.0.0.1", ...UNLIMITED, ...env },
  });
  onTestFinished(() => child.stop());
  return {
    ...child,
    output: printed,
    untilPrinted: (text: string, seconds?: number) =>
      waitUntil(`it prints "${text}"`, printed, seconds, (all) => all.includes(text)),
  };
};

/** Finds free ports, as settings of `npm start`. */
export const findPorts = async () => ({
  PORT: String(await findFreePort()),
  INDEXER_PORT: String(await findFreePort()),
  METRICS_PORT: String(await findFreePort()),
});

const PARTS = ["api", "client/src", "indexer", "local", "process", "registry", "src", "web"];
const FILES = ["package.json", "tsconfig.json", "ponder.config.ts", "ponder.schema.ts"];

/** Copies the project for one test: `npm start` keeps its own Postgres in the project's folder. */
export const copyProject = async () => {
  const directory = await mkdtemp(join(tmpdir(), "start-"));
  const list = () => listProcesses().filter(({ command }) => command.includes(directory));
  onTestFinished(async () => {
    for (const { pid } of list()) process.kill(pid, "SIGKILL");
    await rm(directory, { recursive: true, force: true, maxRetries: 5 });
  });
  // Postgres does not run as root, and its user needs access.
  await chmod(directory, 0o755);
  for (const part of [...PARTS, ...FILES]) await cp(join(ROOT, part), join(directory, part), { recursive: true });
  await symlink(join(ROOT, "node_modules"), join(directory, "node_modules"));

  const data = join(directory, ".data/postgres");
  return {
    directory,
    data,
    /** Lists the processes of the copy: they have its folder in their arguments. */
    listProcesses: list,
    untilNoneIsLeft: (seconds?: number) =>
      waitUntil(
        "no process is left",
        () => list().map(({ pid, command }) => `${pid} ${command}`),
        seconds,
        (left) => left.length === 0,
      ),
    /** Reads the pid of the embedded Postgres. */
    readPostgresPid: async () => Number((await readFile(join(data, "postmaster.pid"), "utf8")).split("\n")[0]),
  };
};
