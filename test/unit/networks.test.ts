import { readFileSync } from "node:fs";
import { isAddress } from "viem";
import * as viemChains from "viem/chains";
import { describe, expect, test } from "vitest";
import { findRegistry, isZksync } from "../../client/src/registries.ts";
import { blockExplorers } from "../../registry/block-explorers.ts";
import { networks } from "../../registry/networks.ts";

const V1 = "0x00000000000076A84feF008CDAbe6409d2FE638B";
const V2 = "0x00000000000000447e69651d841bD8D104Bed493";
const V2_ZK_STACK = "0x0000000059A24EB229eED07Ac44229DB56C5d797";
const ZK_STACK = [300, 324, 2741, 11124, 61166];

describe("networks", () => {
  test("has all 57 networks, each with its own id and name", () => {
    expect(networks.size).toBe(57);
    for (const [chainId, network] of networks) expect(network.chainId).toBe(chainId);
    expect(new Set([...networks.values()].map(({ name }) => name)).size).toBe(networks.size);
  });

  test("has at least one registry per network, at the address for its kind of chain", () => {
    for (const { chainId, name, v1, v2 } of networks.values()) {
      const isZkStack = ZK_STACK.includes(chainId);
      expect([v1, v2], name).not.toEqual([null, null]);
      for (const deployment of [v1, v2]) if (deployment) expect(isAddress(deployment.address), name).toBe(true);
      if (v1) expect([v1.address, isZkStack], name).toEqual([V1, false]);
      if (v2) expect(v2.address, name).toBe(isZkStack ? V2_ZK_STACK : V2);
    }
  });

  test("has the client's address of each registry, and its kind of state", () => {
    for (const { chainId, name, ...registries } of networks.values()) {
      for (const version of ["v1", "v2"] as const) {
        const { address } = registries[version] ?? {};
        if (address) expect(findRegistry(chainId, version), name).toBe(address);
      }
      expect(isZksync(chainId), name).toBe(ZK_STACK.includes(chainId));
    }
  });

  test("has viem's chain id for every chain that viem has", () => {
    const chains: Record<string, { id: number } | undefined> = { ...viemChains };
    for (const { viem, chainId } of networks.values()) if (viem) expect(chains[viem]?.id, viem).toBe(chainId);
  });

  test("has viem's block explorer for every chain that viem has, and no other", () => {
    const chains: Record<string, { blockExplorers?: { default: { url: string } } } | undefined> = { ...viemChains };
    for (const { viem, chainId } of networks.values()) {
      const url = viem === null ? undefined : chains[viem]?.blockExplorers?.default.url.replace(/\/$/, "");
      expect(blockExplorers.get(chainId), String(chainId)).toBe(url);
    }
    expect([...blockExplorers.keys()].filter((chainId) => !networks.has(chainId))).toEqual([]);
  });

  test("has the evidence for each floor in docs/networks.md", () => {
    const evidence = readFileSync(new URL("../../docs/networks.md", import.meta.url), "utf8").split("\n");
    for (const { v1, v2, name } of networks.values()) {
      for (const [version, deployment] of Object.entries({ v1, v2 })) {
        const { startBlock, startBlockFloor } = deployment ?? {};
        if (!startBlockFloor || startBlock) continue;
        const row = evidence.find((line) => line.startsWith(`| ${name} |`) && line.includes(`| ${startBlockFloor} |`));
        expect(row, `${name} ${version}`).toContain(version);
      }
    }
  });

  test("has no start block before its floor, and no deployment window that ends before its start", () => {
    for (const { v1, v2, name } of networks.values()) {
      for (const deployment of [v1, v2]) {
        if (deployment?.startBlock != null && deployment.startBlockFloor != null) {
          expect(deployment.startBlockFloor, name).toBeLessThanOrEqual(deployment.startBlock);
        }
        if (deployment?.deployedBefore) {
          expect(Date.parse(deployment.deployedAfter), name).toBeLessThan(Date.parse(deployment.deployedBefore));
        }
      }
    }
  });
});
