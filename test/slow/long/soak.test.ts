import { expect, test } from "vitest";
import { isNightly, runScript } from "../../support/run.ts";

/** Long enough for every fault. Judging memory needs ten minutes. */
const MINUTES = isNightly ? "12" : "0.5";

test("npm run soak finds no wrong answer, and no error while all parts are up", { timeout: 30 * 60_000 }, async () => {
  const { code, output } = await runScript("faults/soak/main.ts", "--minutes", MINUTES);
  expect(code, output).toBe(0);
  expect(output.match(/recovered .* after its cause was gone/g)).toHaveLength(8);
  if (isNightly) expect(output).toMatch(/\| Ponder \| \d+ s \| \d+ → \d+ MB \|/);
});
