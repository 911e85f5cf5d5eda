import { afterAll, beforeAll, expect, test } from "vitest";
import { connectionsLost, postgresCrash, postgresRestart } from "../../../soak/faults.ts";
import { launchService, survive } from "../../support/survive.ts";

// A Postgres that goes away and comes back under a running indexer and API.

let launched: Awaited<ReturnType<typeof launchService>>;
beforeAll(async () => {
  launched = await launchService();
});
afterAll(() => launched?.stop());

test("postgres-restart: 503 while it is away, then every change, without hands", async () => {
  const { refused } = await survive(launched.service, postgresRestart);
  expect(refused).toBeGreaterThan(0);
});

test("postgres-crash: what was being written when it broke off is neither lost nor doubled", async () => {
  await survive(launched.service, postgresCrash);
});

test("postgres-lost-connections: all of them ended, five times in a row", async () => {
  await survive(launched.service, connectionsLost);
});
