import { describe, expect } from "vitest";
import { GUEST, HOT, NFT, VAULT } from "../../support/api.ts";
import { ALL, askChecks, postChecks } from "../../support/bulk-checks.ts";
import { addKey } from "../../support/keys.ts";
import { test } from "../../support/test.ts";

test("a bad check fails alone, with a problem that names every bad field", async ({ samples }) => {
  const notTaken = (name: string) => `${name} is not taken here: use block or minBlock beside checks.`;
  const token = { ...ALL, check: "erc721", contract: NFT };
  const badId = "id must be a string, or an integer up to 2^53.";
  const cases: [check: unknown, detail: string | RegExp][] = [
    [
      { ...ALL, to: "0x12", from: undefined },
      "to must be 0x and 40 hex digits. vault is required (or its other name, from).",
    ],
    [{ ...ALL, chainId: 10 }, /^chainId names a network that is not indexed here; indexed are 1 \(Ethereum\), 137/],
    [{ ...ALL, delegate: GUEST }, "delegate is given with different values (also as to)."],
    [{ ...ALL, check: "token" }, "check must be one of all, contract, erc721, erc20, erc1155, on v2."],
    [{ check: "most" }, /^registry must be v1 or v2\. check must be one of all, contract, token, erc721/],
    ["a check", "checks must be objects."],
    [null, "checks must be objects."],
    [{ ...token, tokenId: 2 ** 60 }, "tokenId must be a string above 2^53: it is rounded."],
    [{ ...token, tokenId: [1] }, "tokenId must be a string."],
    [{ ...token, tokenId: 1.5 }, "tokenId must be a string."],
    [{ registry: "v1", check: "all", to: HOT, from: VAULT }, "delegate is required. vault is required."],
    [{ registry: { toString: 1 }, check: "all" }, "registry must be v1 or v2."],
    [{ ...ALL, id: { a: 1 } }, badId],
    [{ ...ALL, id: 2 ** 60 }, badId],
    [{ ...ALL, block: 1 }, notTaken("block")],
    [
      { ...ALL, to: "0x12", minBlock: "1", timestamp: "" },
      `to must be 0x and 40 hex digits. ${notTaken("minBlock")} ${notTaken("timestamp")}`,
    ],
  ];
  const good = { id: "good", ...ALL, block: null };
  // A problem has the id of its check, unless that is what is wrong.
  const canHaveId = (check: unknown) => typeof check === "object" && check !== null && !("id" in check);
  const checks = cases.map(([check], id) => (canHaveId(check) ? { id, ...(check as object) } : check));
  const { answers } = await askChecks(samples, { checks: [...checks, good] });
  expect(answers).toEqual([
    ...cases.map(([check, detail], id) => ({
      ...(canHaveId(check) && { id }),
      problem: expect.objectContaining({
        status: 400,
        detail: detail instanceof RegExp ? expect.stringMatching(detail) : detail,
      }),
    })),
    { id: "good", result: true },
  ]);
});

test.for<[body: unknown, what: string]>([
  ["{", "JSON that ends too early"],
  ["[]", "a list"],
  [{}, "no checks"],
  [{ checks: "all" }, "a text as checks"],
  [{ checks: [ALL], block: -1 }, "a negative block"],
  [{ checks: [ALL], block: "latest" }, "a block with a name"],
  [{ checks: [ALL], block: 1, minBlock: 1 }, "two blocks"],
])("a body that cannot be read is one problem: $1", async ([body], { samples }) => {
  const response = await postChecks(samples, body);
  expect([response.status, await response.json()]).toMatchObject([400, { type: "/docs#problem-bad-parameter" }]);
});

test("more than 1,000 checks are one problem", async ({ api, database }) => {
  const { key } = await addKey(database);
  const response = await postChecks(api, { checks: new Array(1001).fill(ALL) }, { headers: { "X-API-KEY": key } });
  expect([response.status, await response.json()]).toMatchObject([400, { type: "/docs#problem-bad-parameter" }]);
});

test.for<[body: object, query: string, errors: Record<string, string>]>([
  [{ timestamp: 1 }, "", { timestamp: "is not taken here: use block or minBlock" }],
  [{ timestamp: null, block: -1 }, "", { block: "must be a block", timestamp: "is not taken here" }],
  [{}, "?block=1", { block: "is not taken here: use block or minBlock in the body" }],
  [{}, "?minBlock=1&timestamp=%zz", { minBlock: "is not taken here", timestamp: "is not taken here" }],
])("a moment that is not taken is named: %o%s", async ([body, query, errors], { samples }) => {
  const response = await postChecks(samples, { checks: [ALL], ...body }, { query });
  const found = (await response.json()) as { errors: { parameter: string }[] };
  const named = Object.entries(errors).map(([parameter, message]) => ({
    parameter,
    message: expect.stringMatching(`^${message}`),
  }));
  const sorted = found.errors.toSorted((a, b) => a.parameter.localeCompare(b.parameter));
  expect([response.status, sorted]).toEqual([400, named]);
});

test("other fields and parameters are ignored", async ({ samples }) => {
  const response = await postChecks(samples, { checks: [ALL], note: "ignored" }, { query: "?note=%zz" });
  expect(response.status).toBe(200);
});

test.for(["block", "minBlock"])(
  "a number as %s with checks on several networks: it is another time on each",
  async (name, { samples }) => {
    const response = await postChecks(samples, { checks: [ALL, { ...ALL, chainId: 137 }], [name]: 1 });
    expect([response.status, await response.json()]).toMatchObject([400, { errors: [{ parameter: name }] }]);
  },
);

describe("a body", () => {
  const nest = (levels: number) => "[".repeat(levels) + "]".repeat(levels);
  const quote = (text: string) => JSON.stringify(text);

  test.for<[what: string, note: string, status: number]>([
    // The body itself is a level.
    ["8 levels", nest(7), 200],
    ["9 levels", nest(8), 400],
    ["fewer than 20,000 values", `[${"{},".repeat(9_000)}{}]`, 200],
    ["more than 20,000 values", `[${"0,".repeat(20_000)}0]`, 400],
    ["100,000 levels that are not even JSON", "[".repeat(100_000), 400],
    ["brackets in a text", quote("[".repeat(50)), 200],
    ["braces and commas in a text", quote("{,".repeat(30_000)), 200],
    ["quotes in a text", quote('"[,'.repeat(30_000)), 200],
    ["backslashes in a text", quote("\\".repeat(9)), 200],
    ["escaped quotes in a text", quote('\\"[{,'.repeat(9_000)), 200],
    ["9 levels after a text that ends with an escaped backslash", `["\\\\",${nest(8)}]`, 400],
  ])("with %s: %3$s", async ([, note, status], { api, database }) => {
    const { key } = await addKey(database);
    const body = `{"checks":[${JSON.stringify(ALL)}],"note":${note}}`;
    const response = await postChecks(api, body, { headers: { "X-API-KEY": key } });
    const { errors } = (await response.json()) as { errors?: object[] };
    const tooMuch = [{ parameter: "body", message: "must have at most 8 levels and 20,000 values" }];
    expect([response.status, errors]).toEqual([status, status === 400 ? tooMuch : undefined]);
  });
});
