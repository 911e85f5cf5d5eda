import { expect } from "vitest";
import { HOT } from "../../support/api.ts";
import { test as base } from "../../support/test.ts";

const test = base.extend("env", { RATE_LIMIT_REQUESTS: "1" });

test("each request counts against the limit, one with an unknown key too", async ({ api }) => {
  expect((await api.get(`/wallets/${HOT}/vaults`)).headers.get("RateLimit")).toMatch(/r=0/);
  expect((await api.get(`/wallets/${HOT}/history`)).status).toBe(429);
  const unknown = await api.get(`/wallets/${HOT}/history`, { headers: { "X-API-KEY": "nothing" } });
  expect([401, 429]).toContain(unknown.status);
});
