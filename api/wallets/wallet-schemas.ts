import { z } from "@hono/zod-openapi";
import { SAMPLES } from "../contract/parameters.ts";
import { ProblemSchema } from "../contract/responses.ts";

// JSON of the questions about a wallet, in the OpenAPI document.

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
