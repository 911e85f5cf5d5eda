import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

export const ROOT = join(import.meta.dirname, "../..");

/** Runs JavaScript in a process of its own, whose memory is nobody else's, and reads the JSON that it prints. */
export const measure = async (script: string) => {
  const flags = ["--expose-gc", "--import", "tsx", "--input-type=module", "--eval"];
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, script], { cwd: ROOT });
  return JSON.parse(stdout);
};

/** How much memory a process has at the moment. */
export const residentMb = (pid: number): number => {
  const [, kb] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return Number(kb) / 1024;
};

/** The most that it has until it is asked. */
export const watchMemory = (pid: number): (() => number) => {
  let peak = residentMb(pid);
  const timer = setInterval(() => {
    peak = Math.max(peak, residentMb(pid));
  }, 20);
  return () => {
    clearInterval(timer);
    return Math.max(peak, residentMb(pid));
  };
};
