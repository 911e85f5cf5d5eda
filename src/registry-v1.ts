import { type Context, type Event, ponder } from "ponder:registry";
import { delegationV1 } from "ponder:schema";
import { and, asc, eq } from "ponder";
import { type Address, decodeFunctionData, isAddressEqual } from "viem";
import { registryV1Abi } from "../registry/abi.ts";
import { type DelegationKeyV1, NO_CONTRACT, NO_TOKEN } from "../registry/delegation.ts";
import { appendChanges, type LogEvent, positionOf } from "./change-log.ts";
import { readVaultState } from "./vault-state.ts";

ponder.on("RegistryV1:DelegateForAll", async ({ event, context }) => {
  const { vault, delegate, value } = event.args;
  const delegation = { vault, delegate, type: "ALL", contract: NO_CONTRACT, tokenId: NO_TOKEN } as const;
  await setDelegation(context, event, "DelegateForAll", delegation, value);
});

ponder.on("RegistryV1:DelegateForContract", async ({ event, context }) => {
  const { vault, delegate, contract_: contract, value } = event.args;
  const delegation = { vault, delegate, type: "CONTRACT", contract, tokenId: NO_TOKEN } as const;
  await setDelegation(context, event, "DelegateForContract", delegation, value);
});

ponder.on("RegistryV1:DelegateForToken", async ({ event, context }) => {
  const { vault, delegate, contract_: contract, tokenId, value } = event.args;
  const delegation = { vault, delegate, type: "TOKEN", contract, tokenId } as const;
  await setDelegation(context, event, "DelegateForToken", delegation, value);
});

ponder.on("RegistryV1:RevokeAllDelegates", async ({ event, context }) => {
  const active = await findActive(context, event.args.vault);
  await endDelegations(context, event, "RevokeAllDelegates", active);
});

ponder.on("RegistryV1:RevokeDelegate", async ({ event, context }) => {
  const { vault } = event.args;
  const delegate = revokedDelegate(event);
  const active = await findActive(context, vault, delegate);

  // Who was revoked is known, or what survived is read from the contract. That is the state after
  // the whole block: what later events of the block end or make is theirs to apply, and the state
  // after the block is right either way.
  let revoked = active;
  if (delegate === undefined && active.length > 0) {
    const survivors = await readVaultState(context.chain.id, event.log.address, vault, event.block);
    revoked = active.filter((delegation) => !survivors.has(delegation));
  }
  await endDelegations(context, event, "RevokeDelegate", revoked);
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
  if (delegate !== vault) return delegate;

  const isDirectCall =
    transaction.to !== null && isAddressEqual(transaction.to, log.address) && isAddressEqual(transaction.from, vault);
  if (!isDirectCall) return undefined;

  try {
    const call = decodeFunctionData({ abi: registryV1Abi, data: transaction.input });
    if (call.functionName === "revokeDelegate") return call.args[0].toLowerCase() as Address;
    if (call.functionName === "revokeSelf") return vault;
  } catch {
    // Not a call as we know it: the contract's state tells.
  }
  return undefined;
};

const setDelegation = async (
  context: Context,
  event: LogEvent,
  eventName: string,
  delegation: DelegationKeyV1,
  active: boolean,
) => {
  const key = { chainId: context.chain.id, ...delegation };
  const found = await context.db.find(delegationV1, key);
  if (active === (found !== null)) return;

  if (active) {
    await context.db.insert(delegationV1).values({ ...key, ...positionOf(event) });
  } else {
    await context.db.delete(delegationV1, key);
  }
  await appendChanges(context, event, eventName, [{ registry: "v1", delegation, active, amount: 0n }]);
};

const endDelegations = async (
  context: Context,
  event: LogEvent,
  eventName: string,
  delegations: readonly DelegationKeyV1[],
) => {
  for (const delegation of delegations) {
    await context.db.delete(delegationV1, { chainId: context.chain.id, ...delegation });
  }
  await appendChanges(
    context,
    event,
    eventName,
    delegations.map((delegation) => ({ registry: "v1", delegation, active: false, amount: 0n })),
  );
};

/** A vault's active delegations, to one delegate or to all, oldest first. */
const findActive = (context: Context, vault: Address, delegate?: Address): Promise<DelegationKeyV1[]> =>
  context.db.sql
    .select({
      vault: delegationV1.vault,
      delegate: delegationV1.delegate,
      type: delegationV1.type,
      contract: delegationV1.contract,
      tokenId: delegationV1.tokenId,
    })
    .from(delegationV1)
    .where(
      and(
        eq(delegationV1.chainId, context.chain.id),
        eq(delegationV1.vault, vault),
        delegate && eq(delegationV1.delegate, delegate),
      ),
    )
    .orderBy(asc(delegationV1.blockNumber), asc(delegationV1.logIndex));
