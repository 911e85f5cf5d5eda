import { expect, test } from "vitest";
import { isNightly, runScript } from "../../support/run.ts";

const PARTS = [
  /check\/all/,
  /list of 1,000/,
  /4,000 delegations|100,000 delegations/,
  /backfill/i,
  /live/i,
  /lag of one shard/,
  /client/,
  /2 processes/,
  /replica/,
  /bytes/,
];

// A shared machine is too noisy to fail on speed. The printed table is for readers.
test(
  "npm run bench measures every part and prints it with its baselines",
  async () => {
    const { code, output } = await runScript("bench/main.ts", isNightly ? "--quick" : "--smoke");
    expect(output).toMatch(/^ +\d+ s {2}Done; all figures are in /m);
    const rows = output.split("\n").filter((line) => line.startsWith("| "));
    for (const part of PARTS) expect(rows).toContainEqual(expect.stringMatching(part));
    expect(rows.filter((row) => /[✓✗]/.test(row)).length).toBeGreaterThan(30);
    if (code !== 0) expect(output).toContain("fall short of their targets");
  },
  15 * 60_000,
);
