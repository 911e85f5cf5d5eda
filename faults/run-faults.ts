import { fork } from "node:child_process";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { waitUntil } from "../test/support/setup.ts";
import { createCounter } from "./counting-chain.ts";
import type { Fault } from "./faults.ts";
import type { LoadError, LoadOptions, LoadReport } from "./load.ts";
import type { Stack } from "./stack.ts";

/** A fault, from its start until the service has recovered. */
export type Window = {
  name: string;
  from: number;
  causeGone: number;
  recovered: number;
  concerns: (error: LoadError) => boolean;
};

/** A request in flight at the recovery may still fail because of the fault. */
const LATE_MS = 2_000;

const isIn = ({ from, recovered, concerns }: Window, error: LoadError): boolean =>
  error.at >= from && error.at <= recovered + LATE_MS && concerns(error);

/** Counts errors by the fault that explains them, and collects the unexplained ones. */
export const assignErrors = (errors: readonly LoadError[], windows: readonly Window[]) => {
  const byWindow = new Map(windows.map((window) => [window, 0]));
  const unexplained: LoadError[] = [];
  for (const error of errors) {
    const window = windows.find((window) => isIn(window, error));
    if (window) byWindow.set(window, (byWindow.get(window) ?? 0) + 1);
    else unexplained.push(error);
  }
  return { byWindow, unexplained };
};

type Load = Pick<LoadOptions, "connections" | "perSecond">;

/** Runs the load in a child process until it is stopped. */
export const runLoad = (stack: Stack, load: Load, onReport: (report: LoadReport) => void) => {
  const child = fork(join(import.meta.dirname, "load.ts"), { execArgv: ["--import", "tsx"] });
  child.on("message", onReport);
  child.send({ ...load, ports: stack.ports, counters: stack.chains.map(createCounter) } satisfies LoadOptions);
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  return {
    stop: async () => {
      child.kill();
      await exited;
    },
  };
};

type RunOptions = {
  load: { connections: number; perSecond: number };
  /** Time from the start of a fault to the start of the next one. By default, one begins when the service has recovered. */
  slotMs?: number;
  log?: (message: string) => void;
  signal?: AbortSignal;
};

export type Outcome = {
  reports: LoadReport[];
  answered: number;
  errors: LoadError[];
  byWindow: ReadonlyMap<Window, number>;
  /** Every answer that was wrong, every error without a fault that explains it, every process that ended by itself. */
  problems: string[];
};

/** Runs one fault after the other over counting chains, under load. Throws if the service does not recover. */
export const runFaults = async (
  stack: Stack,
  faults: readonly Fault[],
  { load, slotMs = 0, log = console.log, signal }: RunOptions,
): Promise<Outcome> => {
  const reports: LoadReport[] = [];
  const windows: Window[] = [];
  const countAnswers = () => reports.reduce((sum, { answered }) => sum + answered, 0);
  const untilAnswered = (what: string, more: number, seconds: number) => {
    const goal = countAnswers() + more;
    const read = () => ({ answered: countAnswers(), error: reports.at(-1)?.errors[0]?.what });
    return waitUntil(what, read, seconds, ({ answered }) => answered > goal);
  };
  const [apiEnds, indexerEnds] = [stack.apiEnds.length, stack.indexerEnds];
  const running = runLoad(stack, load, (report) => reports.push(report));
  try {
    await untilAnswered("the service answers", load.perSecond, 60);
    const startedAt = Date.now();
    const until = (slot: number) => sleep(Math.max(0, startedAt + slot * slotMs - Date.now()), undefined, { signal });
    for (const [index, fault] of faults.entries()) {
      await until(index + 0.5);
      windows.push(await runFault(stack, fault, log));
    }
    await until(faults.length + 1);
    await untilAnswered("the service answers as before", 2 * load.perSecond, 20);
  } finally {
    await running.stop();
  }
  const errors = reports.flatMap((report) => report.errors);
  const { byWindow, unexplained } = assignErrors(errors, windows);
  const problems = [
    ...reports.flatMap(({ wrong }) => wrong.map((answer) => `Wrong answer: ${answer}`)),
    ...unexplained.map((error) => `While no part was down: ${describe(error)}`),
    ...stack.apiEnds.slice(apiEnds),
    ...(stack.indexerEnds > indexerEnds ? ["The indexer ended by itself."] : []),
  ];
  return { reports, answered: countAnswers(), errors, byWindow, problems };
};

const runFault = async (
  stack: Stack,
  { name, run, concerns }: Fault,
  log: (message: string) => void,
): Promise<Window> => {
  const from = Date.now();
  log(name);
  await run(stack);
  const causeGone = Date.now();
  await stack.untilRecovered();
  const recovered = Date.now();
  log(`${name}: recovered ${((recovered - causeGone) / 1000).toFixed(1)} s after its cause was gone`);
  return { name, from, causeGone, recovered, concerns: (error) => concerns?.(error, stack) ?? true };
};

const describe = ({ at, what, chainId, port }: LoadError): string =>
  `${new Date(at).toISOString()} ${what} (chain ${chainId}, port ${port})`;
