import { type Context, type Event, ponder } from "ponder:registry";
import { delegationV1 } from "ponder:schema";
import { type Address, decodeFunctionData, isAddressEqual } from "viem";
import { registryV1Abi } from "../registry/abi.ts";
import { type DelegationKeyV1, NO_CONTRACT, NO_TOKEN } from "../registry/delegation.ts";
import { appendChange, type LogEvent, type Position, readPosition } from "./change-log.ts";
import { addToVault, emptyVault, findDelegations, removeFromVault } from "./vault-delegations.ts";
import { readVaultState } from "./vault-state.ts";

ponder.on("RegistryV1:DelegateForAll", async ({ event, context }) => {
  const { vault, delegate, value } = event.args;
  const delegation = { vault, delegate, type: "ALL", contract: NO_CONTRACT, tokenId: NO_TOKEN } as const;
  await setDelegation(context, event, delegation, { eventName: "DelegateForAll", active: value });
});

ponder.on("RegistryV1:DelegateForContract", async ({ event, context }) => {
  const { vault, delegate, contract_: contract, value } = event.args;
  const delegation = { vault, delegate, type: "CONTRACT", contract, tokenId: NO_TOKEN } as const;
  await setDelegation(context, event, delegation, { eventName: "DelegateForContract", active: value });
});

ponder.on("RegistryV1:DelegateForToken", async ({ event, context }) => {
  const { vault, delegate, contract_: contract, tokenId, value } = event.args;
  const delegation = { vault, delegate, type: "TOKEN", contract, tokenId } as const;
  await setDelegation(context, event, delegation, { eventName: "DelegateForToken", active: value });
});

// A handler first reads every field of the event that it ever needs: Ponder stops fetching fields that the first hundred
// events of a kind did not read, and when a later handler reads one, it drops the rows that it has in memory.

ponder.on("RegistryV1:RevokeAllDelegates", async ({ event, context }) => {
  const { vault } = event.args;
  const position = readPosition(context, event);
  const active = await findDelegations(context, vault);
  if (active.length === 0) return;

  await endDelegations(context, position, "RevokeAllDelegates", active);
  await emptyVault(context, vault);
});

ponder.on("RegistryV1:RevokeDelegate", async ({ event, context }) => {
  const { vault } = event.args;
  const { number, hash } = event.block;
  const position = readPosition(context, event);
  const delegate = findRevokedDelegate(event);
  const active = await findDelegations(context, vault, delegate);
  if (active.length === 0) return;

  // If the delegate is unknown, the contract returns the delegations that remain after the whole block. Handlers of
  // later events in the block apply their own changes, so the state after the block is correct either way.
  let revoked = active;
  if (delegate === undefined) {
    const remaining = await readVaultState(context, event.log.address, vault, { number, hash });
    revoked = active.filter((delegation) => !remaining.has(delegation));
  }
  await endDelegations(context, position, "RevokeDelegate", revoked);
  await removeFromVault(context, vault, revoked);
});

/**
 * Finds the delegate that a RevokeDelegate event revoked. Returns undefined if neither the event nor its transaction has
 * it. The deployed v1 emits the caller instead of the delegate:
 * - `revokeSelf(vault)`, called by the delegate, emits the delegate;
 * - `revokeDelegate(delegate)`, called by the vault, emits the vault. If the vault called the registry directly, the call
 *   data has the delegate; behind a Safe, a batch or any other contract it does not.
 */
const findRevokedDelegate = ({ args, log, transaction }: Event<"RegistryV1:RevokeDelegate">): Address | undefined => {
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
    // An unknown call: the caller reads the contract's state instead.
  }
  return undefined;
};

const setDelegation = async (
  context: Context,
  event: LogEvent,
  delegation: DelegationKeyV1,
  { eventName, active }: { eventName: string; active: boolean },
) => {
  const position = readPosition(context, event);
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
  await appendChange(context, position, {
    registry: "v1",
    eventName,
    delegation,
    active,
    wasActive: !active,
    amount: 0n,
    madeBy: found ?? position,
  });
};

const endDelegations = async (
  context: Context,
  position: Position,
  eventName: string,
  delegations: readonly DelegationKeyV1[],
) => {
  for (const [ordinal, delegation] of delegations.entries()) {
    const key = { chainId: context.chain.id, ...delegation };
    const madeBy = await context.db.find(delegationV1, key);
    if (madeBy === null) throw new Error(`The list of vault ${delegation.vault} has a delegation without a row.`);
    await context.db.delete(delegationV1, key);
    await appendChange(context, position, {
      registry: "v1",
      eventName,
      ordinal,
      delegation,
      active: false,
      wasActive: true,
      amount: 0n,
      madeBy,
    });
  }
};
