import { type Context, ponder } from "ponder:registry";
import { delegationV2 } from "ponder:schema";
import { type DelegationKeyV2, NO_CONTRACT, NO_TOKEN } from "../registry/delegation.ts";
import { appendChange, type LogEvent, readPosition } from "./change-log.ts";

ponder.on("RegistryV2:DelegateAll", async ({ event, context }) => {
  const { from: vault, to: delegate, rights, enable: active } = event.args;
  const delegation = { vault, delegate, rights, type: "ALL", contract: NO_CONTRACT, tokenId: NO_TOKEN } as const;
  await setDelegation(context, event, delegation, { eventName: "DelegateAll", active, amount: 0n });
});

ponder.on("RegistryV2:DelegateContract", async ({ event, context }) => {
  const { from: vault, to: delegate, contract_: contract, rights, enable: active } = event.args;
  const delegation = { vault, delegate, rights, type: "CONTRACT", contract, tokenId: NO_TOKEN } as const;
  await setDelegation(context, event, delegation, { eventName: "DelegateContract", active, amount: 0n });
});

ponder.on("RegistryV2:DelegateERC721", async ({ event, context }) => {
  const { from: vault, to: delegate, contract_: contract, tokenId, rights, enable: active } = event.args;
  const delegation = { vault, delegate, rights, type: "ERC721", contract, tokenId } as const;
  await setDelegation(context, event, delegation, { eventName: "DelegateERC721", active, amount: 0n });
});

ponder.on("RegistryV2:DelegateERC20", async ({ event, context }) => {
  const { from: vault, to: delegate, contract_: contract, rights, amount } = event.args;
  const delegation = { vault, delegate, rights, type: "ERC20", contract, tokenId: NO_TOKEN } as const;
  await setDelegation(context, event, delegation, { eventName: "DelegateERC20", active: amount > 0n, amount });
});

ponder.on("RegistryV2:DelegateERC1155", async ({ event, context }) => {
  const { from: vault, to: delegate, contract_: contract, tokenId, rights, amount } = event.args;
  const delegation = { vault, delegate, rights, type: "ERC1155", contract, tokenId } as const;
  await setDelegation(context, event, delegation, { eventName: "DelegateERC1155", active: amount > 0n, amount });
});

const setDelegation = async (
  context: Context,
  event: LogEvent,
  delegation: DelegationKeyV2,
  { eventName, active, amount }: { eventName: string; active: boolean; amount: bigint },
) => {
  const position = readPosition(context, event);
  const key = { chainId: context.chain.id, ...delegation };
  const found = await context.db.find(delegationV2, key);
  if (active ? found?.amount === amount : found === null) return;

  if (!active) {
    await context.db.delete(delegationV2, key);
  } else if (found === null) {
    await context.db.insert(delegationV2).values({ ...key, amount, ...position });
  } else {
    // The amount changes; the delegation keeps the position of the event that made it.
    await context.db.update(delegationV2, key).set({ amount });
  }
  await appendChange(context, position, {
    registry: "v2",
    eventName,
    delegation,
    active,
    wasActive: found !== null,
    amount,
    madeBy: found ?? position,
  });
};
