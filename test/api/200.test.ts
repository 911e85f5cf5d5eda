import { afterAll, beforeAll, expect, test } from "vitest";
import { type Api, HOT, launchSampleApi, VAULT } from "../support/api.ts";

let api: Api;
beforeAll(async () => {
  api = await launchSampleApi();
});
afterAll(() => api?.stop());

test("check all", async () => {
  const response = await api.get(`/registry/v2/check/all?to=${HOT}&from=${VAULT}`);
  expect(await response.text()).toBe("true");
});
