import type { Address, Hex } from "viem";

// The API loads this file: import only types from viem, whose code takes longer to load than the whole API.

/** v1 has one type for tokens. v2 has one per standard, and the three never satisfy one another. */
export type DelegationTypeV1 = "ALL" | "CONTRACT" | "TOKEN";
export type DelegationTypeV2 = "ALL" | "CONTRACT" | "ERC721" | "ERC20" | "ERC1155";

/** Every field is part of the delegation's key and never null: a field that a type does not have is zero. */
type Scope<Type> = { type: Type; contract: Address; tokenId: bigint };

/** A delegation's identity within one chain and one registry. Addresses are lower-case. */
export type DelegationKeyV1 = { vault: Address; delegate: Address } & Scope<DelegationTypeV1>;
export type DelegationKeyV2 = { vault: Address; delegate: Address; rights: Hex } & Scope<DelegationTypeV2>;

/** True for a type of tokens. */
export const isToken = (type: string): boolean => type !== "ALL" && type !== "CONTRACT";
export const hasTokenId = (type: string): boolean => isToken(type) && type !== "ERC20";
/** True for a type that delegates a balance. */
export const hasAmount = (type: string): boolean => type === "ERC20" || type === "ERC1155";

/** Zero means "not limited" in a key. */
export const NO_CONTRACT: Address = `0x${"0".repeat(40)}`;
export const NO_TOKEN = 0n;
/** Empty rights are full rights, which satisfy a check for any rights. */
export const FULL_RIGHTS: Hex = `0x${"0".repeat(64)}`;

/** The balance that a broader delegation grants. */
export const MAX_UINT256 = 2n ** 256n - 1n;

/**
 * SQL for a delegation's contract, or null if it has none. Postgres uses an index on this expression only in statements
 * that contain the same expression; no check does.
 */
export const CONTRACT_OR_NULL = "case when type <> 'ALL' then contract end";
