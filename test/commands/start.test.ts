import { expect, test } from "vitest";
import { startStack } from "../support/local.ts";

test("npm start ends with code 1 and the bad settings of every part", async () => {
  const started = startStack({
    PORT: "eighty",
    MAX_INDEX_LAG_SECONDS: "-1",
    DATABASE_URL: "mysql://x",
    LOG_LEVEL: "loud",
  });
  expect(await started.exited).toEqual({ code: 1, signal: null });
  for (const problem of [
    /PORT must be/,
    /MAX_INDEX_LAG_SECONDS must be/,
    /DATABASE_URL must be/,
    /set PONDER_RPC_URL_<chainId>/,
  ]) {
    expect(started.output()).toMatch(problem);
  }
  expect(started.output().match(/LOG_LEVEL must be/g)).toHaveLength(1);
  expect(started.output()).not.toMatch(/^\s+at /m);
});
