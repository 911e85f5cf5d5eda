import { expect, test } from "vitest";
import { runScript } from "../../support/run-script.ts";

/** Long enough for every fault of the soak; too short to judge memory, for which ten minutes are needed. */
const MINUTES = "3";

test("a soak of every fault has no wrong answer, and no error while all parts are up", async () => {
  const { code, output } = await runScript("soak/main.ts", "--minutes", MINUTES);
  expect(code, output).toBe(0);
  expect(output.match(/recovered .* after its cause was gone/g)).toHaveLength(8);
});
