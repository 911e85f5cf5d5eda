import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { platform } from "node:os";

/** Linux reports processor time in /proc in hundredths of a second. */
const TICKS_PER_SECOND = 100;

/** Reads the fields of /proc/<pid>/stat after the name, which may contain spaces. The state is the first. */
const readStat = (pid: number | string): string[] => {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
};

const parentOf = (pid: number): number => Number(readStat(pid)[1]);
const ownTicks = (stat: string[]): number => Number(stat[11]) + Number(stat[12]);
/** Ticks of children that have exited. */
const exitedChildTicks = (stat: string[]): number => Number(stat[13]) + Number(stat[14]);

/** Returns the processor time of a process, in seconds. */
export const cpuSeconds = (pid: number): number => ownTicks(readStat(pid)) / TICKS_PER_SECOND;

const readMemory = (pid: number, field: "VmHWM" | "VmRSS"): number => {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]) * 1024;
};

/** Returns the peak memory of a process, in bytes. */
export const peakMemory = (pid: number): number => readMemory(pid, "VmHWM");

/** Returns the resident memory of a process, in bytes. */
export const residentMemory = (pid: number): number =>
  platform() === "linux"
    ? readMemory(pid, "VmRSS")
    : Number(execFileSync("ps", ["-o", "rss=", "-p", String(pid)], { encoding: "utf8" })) * 1024;

/** Returns the processor time of a whole Postgres server, including exited backends, given the pid of one backend. */
export const serverCpuSeconds = (backend: number): number => {
  const server = parentOf(backend);
  const stat = readStat(server);
  let ticks = ownTicks(stat) + exitedChildTicks(stat);
  for (const entry of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const child = readStat(entry);
      if (Number(child[1]) === server) ticks += ownTicks(child);
    } catch {
      // The process has exited meanwhile.
    }
  }
  return ticks / TICKS_PER_SECOND;
};

/** Finds the child of this process whose command line contains a text. */
export const findChildPid = (text: string): number => {
  const pid = readdirSync("/proc").find((name) => {
    try {
      return (
        /^\d+$/.test(name) &&
        parentOf(Number(name)) === process.pid &&
        readFileSync(`/proc/${name}/cmdline`, "utf8").includes(text)
      );
    } catch {
      // The process has exited meanwhile.
      return false;
    }
  });
  if (pid === undefined) throw new Error(`This process has no child with "${text}" in its command line.`);
  return Number(pid);
};
