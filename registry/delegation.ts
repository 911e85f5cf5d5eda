import type { Address, Hex } from "viem";

// What the API loads too: of viem only types, as the rest of it takes longer to load than the whole API.

/**
 * What a delegation covers. v1 knows ALL, CONTRACT and TOKEN; v2 splits tokens by standard,
 * and the three standards never satisfy one another.
 */
export type DelegationTypeV1 = "ALL" | "CONTRACT" | "TOKEN";
export type DelegationTypeV2 = "ALL" | "CONTRACT" | "ERC721" | "ERC20" | "ERC1155";

/**
 * How far a delegation reaches. Every field is part of the delegation's key and so never null:
 * a part that a type does not have is zero.
 */
type Scope<Type> = { type: Type; contract: Address; tokenId: bigint };

/** A delegation's identity within one chain and one registry. Addresses are lower-case. */
export type DelegationKeyV1 = { vault: Address; delegate: Address } & Scope<DelegationTypeV1>;
export type DelegationKeyV2 = { vault: Address; delegate: Address; rights: Hex } & Scope<DelegationTypeV2>;

/** Whether a type is for tokens: of one of the standards, in v2. */
export const isToken = (type: string): boolean => type !== "ALL" && type !== "CONTRACT";
export const hasTokenId = (type: string): boolean => isToken(type) && type !== "ERC20";
/** Whether a delegation of a type is for a balance. */
export const hasAmount = (type: string): boolean => type === "ERC20" || type === "ERC1155";

/** No contract, no token, no rights: the zero that stands for "not limited" in a key. */
export const NO_CONTRACT: Address = `0x${"0".repeat(40)}`;
export const NO_TOKEN = 0n;
/** Empty rights are full rights: they satisfy a check for any rights. */
export const FULL_RIGHTS: Hex = `0x${"0".repeat(64)}`;

/** The balance under a broader delegation, and the largest number that there is. */
export const MAX_UINT256 = 2n ** 256n - 1n;

/**
 * A delegation's contract for those who expect null where there is none, as SQL. An index of this
 * expression serves statements that say the very same, and no check does.
 */
export const CONTRACT_OR_NULL = "case when type <> 'ALL' then contract end";
