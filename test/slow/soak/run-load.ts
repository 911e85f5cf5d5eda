import { fork } from "node:child_process";
import { join } from "node:path";
import type { LoadOptions, LoadReport } from "./load.ts";

/** Runs the load in a child process until it is stopped. */
export const runLoad = (load: LoadOptions, onReport: (report: LoadReport) => void) => {
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
