import { type Context, type Event, ponder } from "ponder:registry";
import { delegationV1 } from "ponder:schema";
import { type Address, decodeFunctionData, isAddressEqual } from "viem";
import { registryV1Abi } from "../registry/abi.ts";
import { type DelegationKeyV1, NO_CONTRACT, NO_TOKEN } from "../registry/delegation.ts";
import { appendChange, type Position, positionOf } from "./change-log.ts";
import { addToVault, emptyVault, findActive, removeFromVault } from "./vault-delegations.ts";
import { readVaultState } from "./vault-state.ts";

ponder.on("RegistryV1:DelegateForAll", async ({ event, context }) => {
  const { vault, delegate, value } = event.args;
  const delegation = { vault, delegate, type: "ALL", contract: NO_CONTRACT, tokenId: NO_TOKEN } as const;
  await setDelegation(context, positionOf(context, event), "DelegateForAll", delegation, value);
});

ponder.on("RegistryV1:DelegateForContract", async ({ event, context }) => {
  const { vault, delegate, contract_: contract, value } = event.args;
  const delegation = { vault, delegate, type: "CONTRACT", contract, tokenId: NO_TOKEN } as const;
  await setDelegation(context, positionOf(context, event), "DelegateForContract", delegation, value);
});

ponder.on("RegistryV1:DelegateForToken", async ({ event, context }) => {
  const { vault, delegate, contract_: contract, tokenId, value } = event.args;
  const delegation = { vault, delegate, type: "TOKEN", contract, tokenId } as const;
  await setDelegation(context, positionOf(context, event), "DelegateForToken", delegation, value);
});

// Below, all that is ever needed of an event is read first: Ponder stops fetching what the first hundred
// events of a kind did not ask for, and when a later one does, it gives up the rows it has in memory.

ponder.on("RegistryV1:RevokeAllDelegates", async ({ event, context }) => {
  const { vault } = event.args;
  const position = positionOf(context, event);
  const active = await findActive(context, vault);
  if (active.length === 0) return;

  await endDelegations(context, position, "RevokeAllDelegates", active);
  await emptyVault(context, vault);
});

ponder.on("RegistryV1:RevokeDelegate", async ({ event, context }) => {
  const { vault } = event.args;
  const { number, hash } = event.block;
  const position = positionOf(context, event);
  const delegate = revokedDelegate(event);
  const active = await findActive(context, vault, delegate);
  if (active.length === 0) return;

  // Who was revoked is known, or what survived is read from the contract. That is the state after
  // the whole block: what later events of the block end or make is theirs to apply, and the state
  // after the block is right either way.
  let revoked = active;
  if (delegate === undefined) {
    const survivors = await readVaultState(context.chain.id, event.log.address, vault, { number, hash });
    revoked = active.filter((delegation) => !survivors.has(delegation));
  }
  await endDelegations(context, position, "RevokeDelegate", revoked);
  await removeFromVault(context, vault, revoked);
});

/**
 * The delegate that a RevokeDelegate event ended, or undefined where neither the event nor its
 * transaction says. The deployed v1 emits the caller instead of the delegate:
 * - `revokeSelf(vault)`, called by the delegate, names it rightly;
 * - `revokeDelegate(delegate)`, called by the vault, names the vault. When the vault called the
 *   registry directly, the call data has the delegate; behind a Safe, a batch or any other contract
 *   it does not.
 */
const revokedDelegate = ({ args, log, transaction }: Event<"RegistryV1:RevokeDelegate">): Address | undefined => {
  const { vault, delegate } = args;
  const { from, to, input } = transaction;
  if (delegate !== vault) return delegate;

  const isDirectCall = to !== null && isAddressEqual(to, log.address) && isAddressEqual(from, vault);
  if (!isDirectCall) return undefined;

  try {
    const call = decodeFunctionData({ abi: registryV1Abi, data: input });
    if (call.functionName === "revokeDelegate") return call.args[0].toLowerCase() as Address;
    if (call.functionName === "revokeSelf") return vault;
  } catch {
    // Not a call as we know it: the contract's state tells.
  }
  return undefined;
};

const setDelegation = async (
  context: Context,
  position: Position,
  eventName: string,
  delegation: DelegationKeyV1,
  active: boolean,
) => {
  const key = { chainId: context.chain.id, ...delegation };
  const found = await context.db.find(delegationV1, key);
  if (active === (found !== null)) return;

  if (active) {
    await context.db.insert(delegationV1).values({ ...key, ...position });
    await addToVault(context, delegation);
  } else {
    await context.db.delete(delegationV1, key);
    await removeFromVault(context, delegation.vault, [delegation]);
  }
  const change = { registry: "v1", delegation, active, wasActive: !active, amount: 0n } as const;
  await appendChange(context, position, eventName, change);
};

const endDelegations = async (
  context: Context,
  position: Position,
  eventName: string,
  delegations: readonly DelegationKeyV1[],
) => {
  for (const [ordinal, delegation] of delegations.entries()) {
    await context.db.delete(delegationV1, { chainId: context.chain.id, ...delegation });
    const change = { registry: "v1", delegation, active: false, wasActive: true, amount: 0n } as const;
    await appendChange(context, position, eventName, change, ordinal);
  }
};
