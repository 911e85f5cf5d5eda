import { expect } from "vitest";
import { HOT, NFT, VAULT } from "../support/api.ts";
import { test } from "../support/test.ts";

/** Good parameters for any check. */
const all = `to=${HOT}&from=${VAULT}&delegate=${HOT}&vault=${VAULT}&contract=${NFT}&tokenId=8520`;

test.for([
  ["no version", `/registry/${VAULT}`],
  ["a version and nothing more", "/registry/v2"],
  ["a version and a slash", "/registry/v2/"],
  ["an unknown version", `/registry/v3/${VAULT}`],
  ["no registry", `/v2/${VAULT}`],
  ["an unknown check", `/registry/v2/check/everything?${all}`],
  ["a v1 check on v2", `/registry/v2/check/token?${all}`],
  ["erc721 on v1", `/registry/v1/check/erc721?${all}`],
  ["erc1155 on v1", `/registry/v1/check/erc1155?${all}`],
  ["erc20 on v1", `/registry/v1/check/erc20?${all}`],
  ["something behind a wallet", `/registry/v2/${VAULT}/incoming`],
  ["something behind a check", `/registry/v2/check/all/${VAULT}?${all}`],
  ["a check in capitals", `/registry/v2/check/ALL?${all}`],
  ["a path in capitals", `/REGISTRY/V2/${VAULT}`],
  ["an empty segment at the start", `//registry/v2/${VAULT}`],
  ["an empty segment in between", `/registry//v2/${VAULT}`],
  ["two slashes at the end", `/registry/v2/check/all//?${all}`],
  ["an encoded slash in between", `/registry/v2%2f${VAULT}`],
  ["an encoded null at the end", `/registry/v2/check/all%00?${all}`],
  ["an encoded space at the end", `/registry/v2/check/all%20?${all}`],
  ["a path out of the registry", "/registry/v2/../../etc/passwd"],
  ["the same, encoded", "/registry/v2/%2e%2e/%2e%2e/etc/passwd"],
  ["a file of secrets", "/.env"],
  ["a property of every object", "/__proto__"],
  ["a percent sign", "/%"],
  ["percent signs that mean nothing", "/%zz%ff"],
] as const)("a path with %s returns 404", async ([, path], { samples }) => {
  const response = await samples.get(path);
  expect(response.status).toBe(404);
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  expect(response.headers.get("cache-control")).toBe("no-store");
  expect(await response.json()).toEqual({
    type: "/docs#problem-not-found",
    title: "Not found",
    status: 404,
    detail: expect.stringContaining("/docs"),
  });
});
