import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { CHECK, createSampleDatabase, startApi } from "../support/api.ts";
import { connect } from "../support/setup.ts";

test("SIGTERM: accepts nothing more, finishes what is under way, and ends with code 0", async () => {
  const databaseUrl = await createSampleDatabase();
  const api = await startApi({ databaseUrl, env: { MAX_INDEX_LAG_SECONDS: "86400" } });
  const database = await connect(databaseUrl);
  const { rows } = await database.query("select schema from indexer.shard");

  // A question that has to wait, as during a reorg.
  await database.query("begin");
  await database.query(`lock table ${rows[0].schema}.delegation_v2 in access exclusive mode`);
  const answers = Array.from({ length: 20 }, () => api.get(CHECK));
  await sleep(300);

  process.kill(api.pid, "SIGTERM");
  await sleep(300);
  await expect(api.get("/health")).rejects.toThrow();
  await database.query("rollback");

  for (const answer of answers) {
    const response = await answer;
    expect([response.status, await response.text()]).toEqual([200, "true"]);
  }
  expect(await api.exited).toEqual({ code: 0, signal: null });
});
