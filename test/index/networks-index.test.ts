import { zeroHash } from "viem";
import { expect, test } from "vitest";
import { networks } from "../../registry/networks.ts";
import { encodeV1, encodeV2 } from "../../sandbox/calls.ts";
import { startApi } from "../support/api.ts";
import { connect, createChain, createDatabase, startIndexer, untilIndexed } from "../support/setup.ts";

test("each network is indexed with the registries that it has, at the addresses where they are", async () => {
  // A ZK-stack network with v2 at an address of its own; one with v1 only; one with v2 only.
  const chains = await Promise.all([324, 10200, 59144].map((chainId) => createChain(chainId)));
  for (const { client, accounts, chainId } of chains) {
    const [from, delegate] = accounts;
    const network = networks.get(chainId);
    if (!from || !delegate || !network) throw new Error(`Chain ${chainId} lacks accounts.`);
    const { v1, v2 } = network;
    const send = (to: `0x${string}`, data: `0x${string}`) =>
      client.sendTransaction({ account: from, chain: null, to, data, gas: 1_000_000n });
    if (v1) await send(v1.address, encodeV1("delegateForAll", [delegate, true]));
    if (v2) await send(v2.address, encodeV2("delegateAll", [delegate, zeroHash, true]));
    await client.mine({ blocks: 1 });
  }

  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  await startIndexer({ databaseUrl, chains });
  for (const chain of chains) await untilIndexed(database, chain);
  const { rows } = await database.query(
    "select chain_id::int as chain, registry, event from registry.delegation_change order by 1, 2",
  );
  expect(rows).toEqual([
    { chain: 324, registry: "v2", event: "DelegateAll" },
    { chain: 10200, registry: "v1", event: "DelegateForAll" },
    { chain: 59144, registry: "v2", event: "DelegateAll" },
  ]);

  // Of a registry that a network does not have, the API does not say that there is no delegation.
  const api = await startApi({ databaseUrl });
  const ask = async (version: "v1" | "v2", chainId: number) => {
    const [vault, delegate] = chains[0]?.accounts ?? [];
    const question = `/registry/${version}/check/all?delegate=${delegate}&vault=${vault}&chainId=${chainId}`;
    const response = await api.get(question);
    return [response.status, await response.text()];
  };
  for (const { chainId } of chains) {
    const { v1, v2 } = networks.get(chainId) ?? {};
    const refused = [400, expect.stringMatching(/has no v[12] registry on .*; v[12] is indexed here on/)];
    expect(await ask("v1", chainId)).toEqual(v1 ? [200, "true"] : refused);
    expect(await ask("v2", chainId)).toEqual(v2 ? [200, "true"] : refused);
  }
});
