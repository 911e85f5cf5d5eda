import { afterAll, beforeAll, expect, test } from "vitest";
import { type Api, COIN, HOT, launchSampleApi, NFT, VAULT } from "../support/api.ts";

let api: Api;
beforeAll(async () => {
  api = await launchSampleApi();
});
afterAll(() => api?.stop());

const all = `to=${HOT}&from=${VAULT}&delegate=${HOT}&vault=${VAULT}&contract=${NFT}&tokenId=8520`;

// Each with a question that would be a good one elsewhere.
const UNKNOWN_PATHS = {
  "no version": `/registry/${VAULT}`,
  "a version without anything": "/registry/v2",
  "a version with a slash and nothing more": "/registry/v2/",
  "a version that does not exist": `/registry/v3/${VAULT}`,
  "no registry": `/v2/${VAULT}`,
  "a check that does not exist": `/registry/v2/check/everything?${all}`,
  "a v1 check on v2": `/registry/v2/check/token?${all}`,
  "a v2 check on v1, erc721": `/registry/v1/check/erc721?${all}`,
  "a v2 check on v1, erc1155": `/registry/v1/check/erc1155?${all}`,
  "a v2 check on v1, erc20": `/registry/v1/check/erc20?${all}&contract=${COIN}`,
  "something behind a wallet": `/registry/v2/${VAULT}/incoming`,
  "something behind a check": `/registry/v2/check/all/${VAULT}?${all}`,
  "a check in capitals": `/registry/v2/check/ALL?${all}`,
  "a path in capitals": `/REGISTRY/V2/${VAULT}`,
  "an empty segment at the start": `//registry/v2/${VAULT}`,
  "an empty segment in between": `/registry//v2/${VAULT}`,
  "two slashes at the end": `/registry/v2/check/all//?${all}`,
  "an encoded slash in between": `/registry/v2%2f${VAULT}`,
  "an encoded null at the end": `/registry/v2/check/all%00?${all}`,
  "an encoded space at the end": `/registry/v2/check/all%20?${all}`,
  "a path out of the registry": "/registry/v2/../../etc/passwd",
  "the same, encoded": "/registry/v2/%2e%2e/%2e%2e/etc/passwd",
  "what others have in this place": "/.env",
  "what every object has": "/__proto__",
  "a percent sign": "/%",
  "percent signs that mean nothing": "/%zz%ff",
};

test.each(Object.entries(UNKNOWN_PATHS))("there is nothing at a path with %s", async (_, path) => {
  const response = await api.get(path);
  expect(response.status).toBe(404);
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  expect(response.headers.get("cache-control")).toBe("no-store");
  expect(await response.json()).toEqual({
    type: "/docs#problem-not-found",
    title: "Nothing here",
    status: 404,
    detail: expect.stringContaining("/docs"),
  });
});

test("a HEAD finds nothing either, and has no body", async () => {
  const response = await api.get("/registry/v3", { method: "HEAD" });
  expect(response.status).toBe(404);
  expect(await response.text()).toBe("");
});

test("a wallet without delegations is not unknown: its list is empty", async () => {
  const response = await api.get(`/registry/v2/0x${"0".repeat(39)}1`);
  expect(response.status).toBe(200);
  expect(await response.text()).toBe("[]");
});
