import { type Context, ponder } from "ponder:registry";
import { delegationV2 } from "ponder:schema";
import { type DelegationKeyV2, NO_CONTRACT, NO_TOKEN } from "../registry/delegation.ts";
import { appendChange, type Position, positionOf } from "./change-log.ts";

ponder.on("RegistryV2:DelegateAll", async ({ event, context }) => {
  const { from: vault, to: delegate, rights, enable } = event.args;
  const delegation = { vault, delegate, rights, type: "ALL", contract: NO_CONTRACT, tokenId: NO_TOKEN } as const;
  await setDelegation(context, positionOf(context, event), "DelegateAll", delegation, { active: enable, amount: 0n });
});

ponder.on("RegistryV2:DelegateContract", async ({ event, context }) => {
  const { from: vault, to: delegate, contract_: contract, rights, enable } = event.args;
  const delegation = { vault, delegate, rights, type: "CONTRACT", contract, tokenId: NO_TOKEN } as const;
  await setDelegation(context, positionOf(context, event), "DelegateContract", delegation, {
    active: enable,
    amount: 0n,
  });
});

ponder.on("RegistryV2:DelegateERC721", async ({ event, context }) => {
  const { from: vault, to: delegate, contract_: contract, tokenId, rights, enable } = event.args;
  const delegation = { vault, delegate, rights, type: "ERC721", contract, tokenId } as const;
  await setDelegation(context, positionOf(context, event), "DelegateERC721", delegation, {
    active: enable,
    amount: 0n,
  });
});

ponder.on("RegistryV2:DelegateERC20", async ({ event, context }) => {
  const { from: vault, to: delegate, contract_: contract, rights, amount } = event.args;
  const delegation = { vault, delegate, rights, type: "ERC20", contract, tokenId: NO_TOKEN } as const;
  await setDelegation(context, positionOf(context, event), "DelegateERC20", delegation, {
    active: amount > 0n,
    amount,
  });
});

ponder.on("RegistryV2:DelegateERC1155", async ({ event, context }) => {
  const { from: vault, to: delegate, contract_: contract, tokenId, rights, amount } = event.args;
  const delegation = { vault, delegate, rights, type: "ERC1155", contract, tokenId } as const;
  await setDelegation(context, positionOf(context, event), "DelegateERC1155", delegation, {
    active: amount > 0n,
    amount,
  });
});

/** What an event says of one delegation: an amount of zero is what switches a balance off. */
type Setting = { active: boolean; amount: bigint };

const setDelegation = async (
  context: Context,
  position: Position,
  eventName: string,
  delegation: DelegationKeyV2,
  { active, amount }: Setting,
) => {
  const key = { chainId: context.chain.id, ...delegation };
  const found = await context.db.find(delegationV2, key);
  if (active ? found?.amount === amount : found === null) return;

  if (!active) {
    await context.db.delete(delegationV2, key);
  } else if (found === null) {
    await context.db.insert(delegationV2).values({ ...key, amount, ...position });
  } else {
    // A new amount replaces the old one; the delegation stays as old as it was.
    await context.db.update(delegationV2, key).set({ amount });
  }
  const change = { registry: "v2", delegation, active, wasActive: found !== null, amount } as const;
  await appendChange(context, position, eventName, change);
};
