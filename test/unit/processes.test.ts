import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { readCommandLine } from "../../process/program.ts";
import { describeWithPrograms } from "../support/run.ts";

describeWithPrograms(["ps"], "readCommandLine()", () => {
  // Linux reads /proc; every other system, ps.
  test.for(["linux", "darwin"] as const)(
    "finds the arguments of a running process, as on %s, and none of an ended one",
    async (os, { skip }) => {
      if (os === "linux" && process.platform !== "linux") skip("there is no /proc");
      const child = spawn(process.execPath, ["--eval", "process.stdin.resume()", "an-argument"]);
      await once(child, "spawn");
      expect(readCommandLine(Number(child.pid), os)).toContain("an-argument");
      child.kill("SIGKILL");
      await once(child, "exit");
      expect(readCommandLine(Number(child.pid), os)).toBe("");
    },
  );
});
