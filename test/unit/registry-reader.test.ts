import { setTimeout as sleep } from "node:timers/promises";
import { getBlock } from "viem/actions";
import { describe, expect } from "vitest";
import { createChainClient } from "../../indexer/rpc/chain-rpc.ts";
import { LimitedRpc } from "../../indexer/verification/limited-rpc.ts";
import { RegistryReader } from "../../indexer/verification/registry-reader.ts";
import { networks } from "../../registry/networks.ts";
import { createRandomChain } from "../support/indexed-chain.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { test } from "../support/test.ts";

const chainId = 8453;

const openReader = async ({ hasV1 = true } = {}) => {
  const { local, world } = await createRandomChain(chainId, 94, 40);
  const proxy = await startRpcProxy(local.url);
  const rpc = new LimitedRpc(createChainClient(chainId, [proxy.url]), sleep);
  const network = networks.get(chainId);
  const block = await rpc.request((client) => getBlock(client));
  const addresses = { v1: hasV1 ? (network?.v1?.address ?? null) : null, v2: network?.v2?.address ?? null };
  const reader = await RegistryReader.open(rpc, block, addresses);
  const asked = world.wallets.flatMap(({ address: wallet }) =>
    (["v1", "v2"] as const).flatMap((registry) =>
      (["incoming", "outgoing"] as const).map((side) => ({ registry, side, wallet })),
    ),
  );
  const expected = await Promise.all(asked.map((one) => reader.readList(one.registry, one.side, one.wallet)));
  const lists = asked.map((one, index) => ({ ...one, delegations: expected[index] ?? [] }));
  proxy.seen.length = 0;
  return { reader, rpc, proxy, expected, lists };
};

describe("readLists()", () => {
  test("reads many lists with few requests, as each alone", async () => {
    const { reader, proxy, expected, lists } = await openReader();
    expect(await reader.readLists(lists)).toEqual(expected);
    expect(proxy.seen.length).toBeLessThan(lists.length / 4);
  });

  test("reads those of a network without v1", async () => {
    const { reader, expected, lists } = await openReader({ hasV1: false });
    expect(await reader.readLists(lists)).toEqual(expected);
    expect(expected.flat().some(({ registry }) => registry === "v1")).toBe(false);
  });

  test("reads lists that are longer than expected", async () => {
    const { reader, rpc, expected, lists } = await openReader();
    expect(await reader.readLists(lists.map((list) => ({ ...list, delegations: [] })))).toEqual(expected);
    expect(rpc.canBatch).toBe(true);
  });

  test("reads them one by one from a node that runs only contracts of the chain", async () => {
    const { reader, proxy, rpc, expected, lists } = await openReader();
    proxy.intercept = ({ method, params: [call] }) =>
      method === "eth_call" && !(call as { to?: string }).to
        ? { error: { code: 3, message: "execution reverted" } }
        : undefined;
    expect(await reader.readLists(lists)).toEqual(expected);
    expect(rpc.canBatch).toBe(false);
    proxy.seen.length = 0;
    expect(await reader.readLists(lists)).toEqual(expected);
    expect(proxy.seen.every(({ params: [call] }) => (call as { to?: string }).to)).toBe(true);
  });
});
