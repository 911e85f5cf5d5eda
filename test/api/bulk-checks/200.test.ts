import { maxUint256 } from "viem";
import { expect } from "vitest";
import { COIN, GONE, GUEST, HOT, NFT, VAULT } from "../../support/api.ts";
import { ALL, askChecks } from "../../support/bulk-checks.ts";
import { test } from "../../support/test.ts";
import { askWallet, type History } from "../../support/wallets.ts";

// Over the sandbox's samples. test/index/differential.test.ts compares the answers with the registries.

const MAX = String(maxUint256);
const V1 = { registry: "v1", delegate: HOT, vault: VAULT };
const V2 = { registry: "v2", delegate: GUEST, vault: VAULT };

test("checks of every kind, registry and network are answered in their order", async ({ samples }) => {
  const cases: [check: Record<string, unknown>, result: boolean | string][] = [
    [{ id: "first", ...V1, check: "all" }, true],
    [{ id: 2, ...V1, check: "contract", contract: COIN }, true],
    [{ ...V1, delegate: GUEST, check: "token", contract: NFT, tokenId: 8520 }, true],
    [{ id: "4", ...V1, delegate: GUEST, check: "token", contract: NFT, tokenId: "0x2149" }, false],
    [{ id: "5", ...ALL, chainId: 137 }, true],
    [{ id: "6", ...V2, check: "contract", contract: NFT }, false],
    [{ id: "7", ...V2, check: "erc721", contract: NFT.toLowerCase(), tokenId: "8520" }, true],
    [{ id: "8", ...V2, check: "erc20", contract: COIN }, "250000"],
    [{ id: "9", ...V2, check: "erc1155", contract: NFT, tokenId: 7, rights: "airdrop" }, "5"],
    [{ id: "10", ...V2, check: "erc1155", contract: NFT, tokenId: 7, rights: null }, "0"],
    [{ id: "11", ...ALL, check: "erc20", contract: COIN, chainId: "1" }, MAX],
  ];
  const { answers, blocks } = await askChecks(samples, { checks: cases.map(([check]) => check) });
  expect(answers).toEqual(cases.map(([{ id }, result]) => (id === undefined ? { result } : { id, result })));
  const { headers } = await samples.get(`/registry/v2/${HOT}`);
  expect(Object.keys(blocks)).toEqual(["1", "137"]);
  expect(blocks[1]).toEqual({
    number: Number(headers.get("X-Indexed-Block")),
    timestamp: Number(headers.get("X-Indexed-Block-Timestamp")),
    final: false,
  });
  expect(await askChecks(samples, { checks: [] })).toEqual({ answers: [], blocks: {} });
});

test("all checks are answered for a past block", async ({ samples }) => {
  const { changes } = await askWallet<History>(samples, `${GONE}/history?chainId=1&registry=v2`);
  const [revoked, made] = changes.filter(({ type }) => type === "ALL").map(({ blockNumber }) => blockNumber);
  const checks = [
    { ...ALL, to: GONE },
    { ...ALL, to: GONE, check: "erc20", contract: COIN },
  ];
  const none = [{ result: false }, { result: "0" }];
  expect(await askChecks(samples, { checks, block: made })).toMatchObject({
    answers: [{ result: true }, { result: MAX }],
    blocks: { 1: { number: made, timestamp: null } },
  });
  expect((await askChecks(samples, { checks, block: String(revoked) })).answers).toEqual(none);
  expect((await askChecks(samples, { checks, minBlock: 1 })).answers).toEqual(none);

  const { headers } = await samples.get(`/registry/v2/${HOT}`);
  const number = Number(headers.get("X-Finalized-Block"));
  expect((await askChecks(samples, { checks, block: "finalized" })).blocks[1]).toMatchObject({ number, final: true });
  const both = await askChecks(samples, { checks: [ALL, { ...ALL, chainId: 137 }], block: "finalized" });
  expect(Object.keys(both.blocks)).toEqual(["1", "137"]);
});
