import { readdirSync, readFileSync } from "node:fs";

/** A process of this machine, as /proc shows it. */
type RunningProcess = { pid: number; parent: number; command: string; environment: string };

/** What runs now, as far as this user may look. Arguments and variables end with a NUL each. */
export const runningProcesses = (): RunningProcess[] =>
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
