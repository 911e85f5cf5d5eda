import { readdirSync, readFileSync } from "node:fs";

/** Linux counts processor time in hundredths of a second for whoever reads /proc. */
const TICKS_PER_SECOND = 100;

/** The fields of /proc/<pid>/stat after the name, which may hold spaces: the state is the first. */
const statOf = (pid: number | string): string[] => {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
};

const parentOf = (pid: number): number => Number(statOf(pid)[1]);
const ownTicks = (stat: string[]): number => Number(stat[11]) + Number(stat[12]);
/** Those of children that have ended. */
const endedTicks = (stat: string[]): number => Number(stat[13]) + Number(stat[14]);

/** The processor time that a process has used, in seconds. */
export const cpuSeconds = (pid: number): number => ownTicks(statOf(pid)) / TICKS_PER_SECOND;

/** The most memory that a process has had at once, in bytes. */
export const peakMemory = (pid: number): number => {
  const kilobytes = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kilobytes) * 1024;
};

/** The processor time of a whole Postgres server, told by one of its backends: also of those that have ended. */
export const serverCpuSeconds = (backend: number): number => {
  const server = parentOf(backend);
  const stat = statOf(server);
  let ticks = ownTicks(stat) + endedTicks(stat);
  for (const entry of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const child = statOf(entry);
      if (Number(child[1]) === server) ticks += ownTicks(child);
    } catch {
      // It has ended meanwhile.
    }
  }
  return ticks / TICKS_PER_SECOND;
};

/** The memory that a process has now, in bytes. */
export const memory = (pid: number): number => {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
  return Number(kilobytes) * 1024;
};
