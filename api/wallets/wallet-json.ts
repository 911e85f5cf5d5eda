import { z } from "@hono/zod-openapi";
import type { Address } from "viem";
import { hasAmount, hasTokenId, isToken } from "../../registry/delegation.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import { SAMPLES } from "../contract/parameters.ts";
import { ProblemSchema } from "../contract/responses.ts";
import { checksumAddress, checksumContract } from "../delegations/checksum-address.ts";

// JSON of the questions about a wallet. Ids and amounts of any length are strings.

/** A delegation as stored, and its event. Zero means "not limited"; numbers are digits. */
export type DelegationRow = {
  chainId: number;
  registry: RegistryVersion;
  type: string;
  vault: Address;
  delegate: Address;
  contract: Address;
  tokenId: string;
  rights: string;
  amount: string;
  blockNumber: string;
  logIndex: number;
  blockTimestamp: string;
  transactionHash: string;
};

export type ChangeRow = DelegationRow & {
  ordinal: number;
  active: boolean;
  wasActive: boolean;
  event: string;
  number: string;
  /** False for a change of the other registry, which only tells how far its statement has read. */
  isListed: boolean;
};

/** Columns of the log by the fields of a change. */
export const CHANGE_COLUMNS = {
  registry: "registry",
  type: "type",
  vault: "vault",
  delegate: "delegate",
  contract: "contract",
  tokenId: "token_id",
  rights: "rights",
  amount: "amount",
  blockNumber: "block_number",
  logIndex: "log_index",
  ordinal: "ordinal",
  blockTimestamp: "block_timestamp",
  transactionHash: "transaction_hash",
  active: "active",
  wasActive: "was_active",
  event: "event",
};

/** Shows a delegation, and the event that made it. */
export const showDelegation = (row: DelegationRow) => {
  const { chainId, registry, type, rights, blockNumber, blockTimestamp, transactionHash } = row;
  return {
    chainId,
    registry,
    type: isToken(type) ? "TOKEN" : type,
    tokenStandard: registry === "v2" && isToken(type) ? type : null,
    vault: checksumAddress(row.vault),
    delegate: checksumAddress(row.delegate),
    contract: type === "ALL" ? null : checksumContract(row.contract),
    tokenId: hasTokenId(type) ? row.tokenId : null,
    rights,
    amount: hasAmount(type) ? row.amount : null,
    blockNumber: Number(blockNumber),
    blockTimestamp: Number(blockTimestamp),
    transactionHash,
  };
};

/** Shows a change of a delegation, and its event. */
export const showChange = (change: Omit<ChangeRow, "number" | "isListed">) => ({
  kind: !change.active ? "revoked" : change.wasActive ? "changed" : "made",
  event: change.event,
  ...showDelegation(change),
  logIndex: change.logIndex,
  ordinal: change.ordinal,
});

/** Shows a change from the wallet's side. */
export const showWalletChange = (change: ChangeRow, wallet: Address) => ({
  direction: change.delegate === wallet ? "incoming" : "outgoing",
  ...showChange(change),
});

// The same in the OpenAPI document.

export const address = z.string().openapi({ description: "EIP-55 checksummed." });
const digits = z.string().nullable();

const delegationFields = {
  chainId: z.int(),
  registry: z.enum(["v1", "v2"]),
  type: z.enum(["ALL", "CONTRACT", "TOKEN"]),
  tokenStandard: z.enum(["ERC721", "ERC20", "ERC1155"]).nullable().openapi({ description: "null in v1." }),
  vault: address.openapi({ description: "The cold wallet, which issued the delegation." }),
  delegate: address.openapi({ description: "The hot wallet, which acts for it." }),
  contract: address.nullable().openapi({ description: "null: not limited to a contract." }),
  tokenId: digits.openapi({ description: "null: not limited to a token." }),
  rights: z.string().openapi({ description: "bytes32; zero is full rights." }),
  amount: digits.openapi({ description: "The delegated balance, for ERC20 and ERC1155." }),
  blockNumber: z.int().openapi({ description: "The block of the event that made the delegation." }),
  blockTimestamp: z.int().openapi({ description: "Seconds since 1970." }),
  transactionHash: z.string(),
};

export const DelegationSchema = z.object(delegationFields).openapi("WalletDelegation");

export const direction = z.enum(["incoming", "outgoing"]);

export const ChangeSchema = z
  .object({
    kind: z.enum(["made", "changed", "revoked"]).openapi({ description: "changed: another amount." }),
    event: z.string().openapi({ description: "The registry's event." }),
    direction,
    ...delegationFields,
    blockNumber: z.int(),
    logIndex: z.int(),
    ordinal: z.int().openapi({ description: "The number of the change among those of its event." }),
  })
  .openapi("WalletChange");

const block = z.object({ number: z.int().nullable(), timestamp: z.int().nullable(), final: z.boolean() });

/** The fields of every page. */
export const pageFields = {
  blocks: z.record(z.string(), block).openapi({
    description:
      "By chain id: the block at which the answer holds. With `timestamp`, the last one up to then that changed a delegation, or null. The timestamp of a past block is null.",
  }),
  unanswered: z
    .array(z.object({ chainId: z.int().nullable(), problem: ProblemSchema }))
    .openapi({ description: "With `partial=true`: networks that cannot be answered for. Otherwise empty." }),
  next: z.string().nullable().openapi({ description: "The cursor of the next page." }),
};

const { vault, hot } = SAMPLES;

export const EXAMPLE_DELEGATION = {
  chainId: 1,
  registry: "v2",
  type: "ALL",
  tokenStandard: null,
  vault,
  delegate: hot,
  contract: null,
  tokenId: null,
  rights: `0x${"0".repeat(64)}`,
  amount: null,
  blockNumber: 20_000_000,
  blockTimestamp: 1_717_000_000,
  transactionHash: `0x${"ab".repeat(32)}`,
};

export const EXAMPLE_CHANGE = {
  kind: "made",
  event: "DelegateAll",
  direction: "incoming",
  ...EXAMPLE_DELEGATION,
  logIndex: 42,
  ordinal: 0,
};

export const EXAMPLE_PAGE = {
  blocks: { 1: { number: 21_000_000, timestamp: 1_730_000_000, final: false } },
  unanswered: [],
  next: null,
};
