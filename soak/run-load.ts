import { fork } from "node:child_process";
import { join } from "node:path";
import type { Load, Report } from "./load.ts";

/** Runs a load in a process of its own, until it is stopped. */
export const runLoad = (load: Load, onReport: (report: Report) => void) => {
  const child = fork(join(import.meta.dirname, "load.ts"), { execArgv: ["--import", "tsx"] });
  child.on("message", onReport);
  child.send(load);
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  return {
    stop: async () => {
      child.kill();
      await exited;
    },
  };
};
