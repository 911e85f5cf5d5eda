import { expect } from "vitest";
import { CHECK } from "../support/api.ts";
import { readServedSchema } from "../support/index-copy.ts";
import { connectClient } from "../support/setup.ts";
import { test } from "../support/test.ts";

// The API runs in this process, so a busy test stalls it.

/** Longer than pg waits for the result of a check. */
const STALL_MS = 2_500;

const stall = () => {
  const endsAt = performance.now() + STALL_MS;
  while (performance.now() < endsAt);
};

test("a stall of the API is not taken for a database that is out of reach", async ({ api, database, databaseUrl }) => {
  expect(await (await api.get(CHECK)).text()).toBe("true");

  // The check waits for a lock, so that its statement is in flight when the stall begins.
  const locker = await connectClient(databaseUrl);
  await locker.query(`begin; lock table ${await readServedSchema(database)}.delegation_v2 in access exclusive mode`);
  const asked = api.get(CHECK);
  for (let rows: unknown[] = []; rows.length === 0; ) {
    ({ rows } = await database.query(
      "select 1 from pg_stat_activity where wait_event_type = 'Lock' and application_name = 'api' and datname = current_database()",
    ));
  }
  stall();
  const response = await asked;
  expect([response.status, await response.json()]).toMatchObject([503, { type: "/docs#problem-overloaded" }]);

  await locker.query("rollback");
  expect(await (await api.get(CHECK)).text()).toBe("true");
  expect(api.output()).not.toContain("out of reach");
});
