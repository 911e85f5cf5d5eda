import { expect } from "vitest";
import { createClient } from "../../client/src/index.ts";
import { type Cells, readCheck } from "../../web/checks/read-check.ts";
import { COIN, GUEST, HOT, NFT, VAULT } from "../support/api.ts";
import { askChecks } from "../support/bulk-checks.ts";
import { test } from "../support/test.ts";

// The page at /checks finds bad lines before it sends anything. It must find the same as the API, in the same words.

const WALLETS = { delegate: HOT, vault: VAULT };
const V1 = { registry: "v1", ...WALLETS };
const V2 = { registry: "v2", ...WALLETS };
const TOKEN = { ...V2, check: "erc721", contract: NFT };
const LARGEST = 2n ** 256n - 1n;
const OF_31_BYTES = "é".repeat(15);

const GOOD: Cells[] = [
  { registry: "v1", check: "all", ...WALLETS },
  { ...V1, check: "token", contract: NFT, tokenId: "8520", rights: "ignored on v1, whatever its length is" },
  { ...V2, check: "all", contract: "ignored", tokenId: "ignored" },
  { registry: "v2", check: "all", to: HOT.toLowerCase(), delegate: HOT, from: VAULT, chainId: "0137" },
  { ...TOKEN, tokenId: String(LARGEST) },
  { ...TOKEN, tokenId: `0x${LARGEST.toString(16).toUpperCase()}` },
  { ...TOKEN, tokenId: `${"0".repeat(74)}8520`, delegate: GUEST },
  { ...V2, check: "erc20", contract: COIN, rights: "0x" },
  { ...V2, check: "erc20", contract: COIN, rights: OF_31_BYTES },
  { ...V2, check: "erc20", contract: COIN, rights: `0x${"aB".repeat(32)}` },
  { ...V2, check: "erc1155", contract: NFT, tokenId: "7", rights: "airdrop", delegate: GUEST },
];

const BAD: Cells[] = [
  { registry: "v3", check: "all", ...WALLETS },
  { registry: "v3", check: "most", ...WALLETS },
  { ...V2, check: "token", contract: NFT, tokenId: "1" },
  { ...V1, check: "erc721", contract: NFT, tokenId: "1" },
  { ...V2, check: "constructor" },
  { registry: "v2", check: "all" },
  { registry: "v2", check: "all", to: "vitalik.eth", from: `${VAULT}0` },
  { ...V2, check: "all", to: GUEST },
  { ...V2, check: "all", from: "0x12" },
  { ...V2, check: "contract" },
  { ...V2, check: "contract", contract: "0x12" },
  ...["", "-1", "1.0", "1e3", "1,000", "0x", "1 2", String(LARGEST + 1n)].map((tokenId) => ({ ...TOKEN, tokenId })),
  ...["0x61", `0x${"0".repeat(65)}`, "0xairdrop", `${OF_31_BYTES}ab`].map((rights) => ({
    ...V2,
    check: "all",
    rights,
  })),
  ...["one", "-1", "1.5", "0x1", "1".repeat(16), "10", "31337000"].map((chainId) => ({ ...V2, check: "all", chainId })),
  { ...V1, check: "all", chainId: "8453" },
  { ...TOKEN, to: "0x1", delegate: "0x2", vault: "", contract: "x", tokenId: "x", rights: "0xx", chainId: "x" },
];

/** Without empty fields, as a list is read. */
const withoutEmpty = (cells: Cells): Cells =>
  Object.fromEntries(Object.entries(cells).filter(([, text]) => text !== ""));

test("readCheck() finds what is wrong with a check, in the words of the API", async ({ samples }) => {
  const networks = await createClient({ url: samples.url }).networks();
  const cases = BAD.map(withoutEmpty);
  const { answers } = await askChecks(samples, { checks: cases });
  for (const [place, cells] of cases.entries()) {
    expect(readCheck(cells, networks), JSON.stringify(cells)).toEqual({ problem: answers[place]?.problem?.detail });
  }
});

test("readCheck() changes no answer of a good check", async ({ samples }) => {
  const registry = createClient({ url: samples.url });
  const networks = await registry.networks();
  const checks = GOOD.map((cells) => {
    const read = readCheck(cells, networks);
    return "check" in read ? read.check : expect.fail(`${JSON.stringify(cells)}: ${read.problem}`);
  });
  const { answers } = await askChecks(samples, { checks: GOOD });
  expect(answers.filter(({ problem }) => problem)).toEqual([]);
  const asked = await registry.checks(checks);
  expect(asked.map(({ value }) => String(value))).toEqual(answers.map(({ result }) => String(result)));
});
