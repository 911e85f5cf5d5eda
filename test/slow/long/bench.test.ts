import { expect, test } from "vitest";
import { runScript } from "../../support/run.ts";

// A shared machine is too noisy to fail on speed. The printed table is for readers.
test("npm run bench -- --quick measures every part and prints it with its baselines", async () => {
  const { code, output } = await runScript("bench/main.ts", "--quick");
  expect(output).toMatch(/^ +\d+ s {2}Done; all figures are in /m);
  const rows = output.split("\n").filter((line) => /^\| .*[✓✗]/.test(line));
  for (const part of [/check/, /list/, /backfill/i, /live/i, /lag of one shard/, /client/])
    expect(rows.join("\n")).toMatch(part);
  if (code !== 0) expect(output).toContain("fall short of their targets");
});
