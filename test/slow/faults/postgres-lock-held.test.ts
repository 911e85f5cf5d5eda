import { afterAll, beforeAll, expect, test } from "vitest";
import { type Fault, lockHeld } from "../../../soak/faults.ts";
import { launchService, survive } from "../../support/survive.ts";

// Somebody else's session has locked the tables that every answer is read from.

let launched: Awaited<ReturnType<typeof launchService>>;
beforeAll(async () => {
  launched = await launchService();
});
afterAll(() => launched?.stop());

test("postgres-lock-held: refusals in time, nothing piles up, and answers as soon as the lock is gone", async () => {
  const { service } = launched;
  /** The same, watched: how many sessions there are to wait for the lock. */
  const sessions: number[] = [];
  const watched: Fault = {
    ...lockHeld,
    run: async () => {
      const timer = setInterval(async () => {
        const { rows } = await service.withClient((client) =>
          client.query("select count(*)::int from pg_stat_activity where application_name = 'api'"),
        );
        sessions.push(rows[0].count);
      }, 500);
      await lockHeld.run(service).finally(() => clearInterval(timer));
    },
  };
  const { refused } = await survive(service, watched);
  expect(refused).toBeGreaterThan(0);
  console.log(`At most ${Math.max(...sessions)} sessions of the API.`);
  // What docs/operating.md says, and one that probes.
  expect(Math.max(...sessions)).toBeLessThanOrEqual(18);
  expect(service.indexerOutput).not.toContain("starting it again");
});
