import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { ROOT } from "../support/run.ts";

test("a program whose output nobody reads any more can exit", async () => {
  const program = `
    import { createLog } from ${JSON.stringify(join(ROOT, "api/metrics/log.ts"))};
    const { log, close } = createLog("info");
    process.once("exit", close);
    process.once("message", () => {
      log.info("The last line.");
      process.exit(7);
    });
    process.send("started");`;
  const child = spawn(
    process.execPath,
    ["--import", import.meta.resolve("tsx"), "--input-type=module", "-e", program],
    {
      cwd: ROOT,
      stdio: ["ignore", "pipe", "inherit", "ipc"],
      timeout: 60_000,
    },
  );
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child, "message");
  child.stdout?.destroy();
  if (child.stdout) await once(child.stdout, "close");
  child.send("exit");
  expect(await once(child, "exit")).toEqual([7, null]);
});
