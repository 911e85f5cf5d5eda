import { execFile, execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { promisify } from "node:util";
import { ROOT } from "./run.ts";

type RunningProcess = { pid: number; parent: number; command: string; environment: string };

/** Other systems have no /proc. */
const HAS_PROC = process.platform === "linux";
const runPs = (...args: string[]) => execFileSync("ps", args, { encoding: "utf8", maxBuffer: 2 ** 26 });

/** Lists the running processes that this user may read. Each argument and variable ends with a NUL. */
export const listProcesses = (): RunningProcess[] => (HAS_PROC ? listFromProc() : listFromPs());

/** macOS prints arguments and variables on one line. */
const listFromPs = (): RunningProcess[] =>
  [...runPs("-A", "-E", "-ww", "-o", "pid=,ppid=,command=").matchAll(/^ *(\d+) +(\d+) +(.*)$/gm)].map(
    ([, pid, parent, command = ""]) => {
      const words = `\0${command.replaceAll(" ", "\0")}\0`;
      return { pid: Number(pid), parent: Number(parent), command, environment: words };
    },
  );

const listFromProc = (): RunningProcess[] =>
  readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .flatMap((entry) => {
      const read = (file: string) => readFileSync(`/proc/${entry}/${file}`, "utf8");
      try {
        // The fourth field of stat is the parent; the second, in parentheses, may hold spaces.
        const stat = read("stat");
        const parent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
        return { pid: Number(entry), parent, command: read("cmdline"), environment: read("environ") };
      } catch {
        return [];
      }
    });

/** Runs JavaScript in its own process, so that nothing else uses its memory, and parses the JSON that it prints. */
export const measureScript = async (script: string) => {
  const flags = ["--expose-gc", "--import", "tsx", "--input-type=module", "--eval"];
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, script], { cwd: ROOT });
  return JSON.parse(stdout);
};

/** Reads the resident memory of a process. */
export const readResidentMb = (pid: number): number => {
  if (!HAS_PROC) return Number(runPs("-o", "rss=", "-p", String(pid))) / 1024;
  const [, kb] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return Number(kb) / 1024;
};

/** Reads how long the main thread of a process has waited for a processor; 0 where the system does not say. */
const readWaitMs = (pid: number): number =>
  !HAS_PROC ? 0 : Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ")[1]) / 1_000_000;

/** Starts a stopwatch. It leaves out the time in which this process or another one waited for a processor. */
export const startStopwatch = (pid: number): (() => number) => {
  const pids = [pid, process.pid];
  const startedAt = performance.now();
  const waitedBefore = pids.map(readWaitMs);
  return () => {
    // Both may have waited at the same time.
    const waited = Math.max(...pids.map((each, index) => readWaitMs(each) - (waitedBefore[index] ?? 0)));
    return Math.max(0, performance.now() - startedAt - waited);
  };
};

/** Samples the resident memory of a process until the returned function is called, which returns the peak. */
export const watchMemory = (pid: number): (() => number) => {
  let peak = readResidentMb(pid);
  const timer = setInterval(() => {
    peak = Math.max(peak, readResidentMb(pid));
  }, 20);
  return () => {
    clearInterval(timer);
    return Math.max(peak, readResidentMb(pid));
  };
};
