import { expect, test } from "vitest";
import { runScript } from "../../support/run.ts";

/** Long enough for every fault. Judging memory needs ten minutes. */
const MINUTES = "3";

test("npm run soak finds no wrong answer, and no error while all parts are up", async () => {
  const { code, output } = await runScript("test/slow/soak/main.ts", "--minutes", MINUTES);
  expect(code, output).toBe(0);
  expect(output.match(/recovered .* after its cause was gone/g)).toHaveLength(8);
});
