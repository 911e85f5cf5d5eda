import { readdirSync, readFileSync } from "node:fs";

/** A local process, from /proc. */
type RunningProcess = { pid: number; parent: number; command: string; environment: string };

/** Lists the running processes that this user may read. Each argument and variable ends with a NUL. */
export const listProcesses = (): RunningProcess[] =>
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
