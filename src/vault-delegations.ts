import type { Context } from "ponder:registry";
import { delegationV1, vaultV1 } from "ponder:schema";
import { and, asc, eq } from "ponder";
import type { Address } from "viem";
import type { DelegationKeyV1, DelegationTypeV1 } from "../registry/delegation.ts";

/** Above this, a vault's list would cost more with each delegation than the query that it spares. */
const MOST_LISTED = 64;

/** A vault's active delegations, to one delegate or to all, oldest first. */
export const findActive = async (context: Context, vault: Address, delegate?: Address): Promise<DelegationKeyV1[]> => {
  const row = await context.db.find(vaultV1, { chainId: context.chain.id, vault });
  if (row === null) return [];
  if (row.delegations === null) return queryActive(context, vault, delegate);
  const active = linesOf(row.delegations).map((line) => parseLine(vault, line));
  return delegate ? active.filter((delegation) => delegation.delegate === delegate) : active;
};

/** Notes that a vault has made a delegation. */
export const addToVault = async (context: Context, delegation: DelegationKeyV1) => {
  const line = lineOf(delegation);
  await context.db
    .insert(vaultV1)
    .values({ chainId: context.chain.id, vault: delegation.vault, delegations: line })
    .onConflictDoUpdate(({ delegations }) => ({
      delegations: delegations === null ? null : joinLines([...linesOf(delegations), line]),
    }));
};

/** Notes that some of a vault's delegations have ended. */
export const removeFromVault = async (context: Context, vault: Address, ended: readonly DelegationKeyV1[]) => {
  const lines = new Set(ended.map(lineOf));
  await context.db.update(vaultV1, { chainId: context.chain.id, vault }).set(({ delegations }) => ({
    delegations: delegations === null ? null : joinLines(linesOf(delegations).filter((line) => !lines.has(line))),
  }));
};

/** Notes that all of a vault's delegations have ended. */
export const emptyVault = async (context: Context, vault: Address) => {
  await context.db.update(vaultV1, { chainId: context.chain.id, vault }).set({ delegations: "" });
};

const lineOf = ({ delegate, type, contract, tokenId }: DelegationKeyV1) => `${delegate} ${type} ${contract} ${tokenId}`;

/** A list as it is stored. */
const joinLines = (lines: readonly string[]) => (lines.length > MOST_LISTED ? null : lines.join());

const linesOf = (delegations: string) => (delegations === "" ? [] : delegations.split(","));

const parseLine = (vault: Address, line: string): DelegationKeyV1 => {
  const [delegate, type, contract, tokenId] = line.split(" ") as [Address, DelegationTypeV1, Address, string];
  return { vault, delegate, type, contract, tokenId: BigInt(tokenId) };
};

/** The same of a vault that has many. */
const queryActive = (context: Context, vault: Address, delegate?: Address): Promise<DelegationKeyV1[]> =>
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
