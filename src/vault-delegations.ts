import type { Context } from "ponder:registry";
import { delegationV1, vaultV1 } from "ponder:schema";
import { and, asc, eq } from "ponder";
import type { Address } from "viem";
import type { DelegationKeyV1, DelegationTypeV1 } from "../registry/delegation.ts";

/** Above this size, updating a vault's list costs more per delegation than the query that the list saves. */
const MAX_LISTED = 64;

/** Finds a vault's active delegations, to one delegate or to all, oldest first. */
export const findDelegations = async (
  context: Context,
  vault: Address,
  delegate?: Address,
): Promise<DelegationKeyV1[]> => {
  const row = await context.db.find(vaultV1, { chainId: context.chain.id, vault });
  if (row === null) return [];
  if (row.delegations === null) return queryDelegations(context, vault, delegate);
  const active = splitLines(row.delegations).map((line) => parseLine(vault, line));
  return delegate ? active.filter((delegation) => delegation.delegate === delegate) : active;
};

/** Adds a delegation to its vault's list. */
export const addToVault = async (context: Context, delegation: DelegationKeyV1) => {
  const line = formatLine(delegation);
  await context.db
    .insert(vaultV1)
    .values({ chainId: context.chain.id, vault: delegation.vault, delegations: line })
    .onConflictDoUpdate(({ delegations }) => ({
      delegations: delegations === null ? null : joinLines([...splitLines(delegations), line]),
    }));
};

/** Removes delegations from a vault's list. */
export const removeFromVault = async (context: Context, vault: Address, ended: readonly DelegationKeyV1[]) => {
  const lines = new Set(ended.map(formatLine));
  await context.db.update(vaultV1, { chainId: context.chain.id, vault }).set(({ delegations }) => ({
    delegations: delegations === null ? null : joinLines(splitLines(delegations).filter((line) => !lines.has(line))),
  }));
};

/** Removes all delegations from a vault's list. */
export const emptyVault = async (context: Context, vault: Address) => {
  await context.db.update(vaultV1, { chainId: context.chain.id, vault }).set({ delegations: "" });
};

const formatLine = ({ delegate, type, contract, tokenId }: DelegationKeyV1) =>
  `${delegate} ${type} ${contract} ${tokenId}`;

/** @returns null for a list that is too long to store */
const joinLines = (lines: readonly string[]) => (lines.length > MAX_LISTED ? null : lines.join());

const splitLines = (delegations: string) => (delegations === "" ? [] : delegations.split(","));

const parseLine = (vault: Address, line: string): DelegationKeyV1 => {
  const [delegate, type, contract, tokenId] = line.split(" ") as [Address, DelegationTypeV1, Address, string];
  return { vault, delegate, type, contract, tokenId: BigInt(tokenId) };
};

/** Queries the table, for a vault whose list is too long to store. */
const queryDelegations = (context: Context, vault: Address, delegate?: Address): Promise<DelegationKeyV1[]> =>
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
