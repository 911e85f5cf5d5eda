import { z } from "@hono/zod-openapi";
import type { Address } from "viem";
import { CHECK_NAMES, type CheckName, isBalanceCheck, takesByName } from "../../registry/checks.ts";
import { networks, type RegistryVersion } from "../../registry/networks.ts";
import { type Cursor, cursor, WRONG_CURSOR } from "../contract/paging.ts";
import {
  type AskedBlock,
  blocks,
  contract,
  flag,
  integerUpTo,
  MAX_LIMIT,
  parsedText,
  rights,
  SAMPLES,
  timestamp,
  tokenId,
  validateBlocks,
  wallet,
} from "../contract/parameters.ts";
import type { ParameterError } from "../problem.ts";
import type { Shards } from "../shards/shards.ts";

// Parameters of the questions about a wallet on several networks.

const DEFAULT_LIMIT = 100;

/** All networks if empty. */
const chainId = z
  .array(
    parsedText("must be chain ids in decimal digits, or all", (text) =>
      text === "all" ? ("all" as const) : /^\d{1,15}$/.test(text) ? Number(text) : undefined,
    ),
  )
  .refine((values) => values.length < 2 || !values.includes("all"), { error: "must be chain ids, or all" })
  .default(["all"])
  .transform((values) => [...new Set(values.filter((value) => value !== "all"))])
  .openapi({
    type: "array",
    items: { type: "string", pattern: "^([0-9]+|all)$" },
    default: ["all"],
    description: "A network. Give it several times for several networks; without it, all that are indexed here.",
  });

const registry = z
  .enum(["v1", "v2", "both"], { error: "must be v1, v2 or both" })
  .default("both")
  .openapi({ description: "The registry." });

const limit = integerUpTo(MAX_LIMIT).default(DEFAULT_LIMIT).openapi({
  type: "integer",
  minimum: 1,
  maximum: MAX_LIMIT,
  default: DEFAULT_LIMIT,
  description: "Rows per page. A page may have fewer rows, and yet a next page.",
});

const partial = flag("Answers without the networks that cannot be answered for, and lists them in `unanswered`.");

/** Of every question about a wallet. */
export const walletParams = {
  wallet: wallet.openapi({ description: "The wallet, in any letter case.", example: SAMPLES.hot }),
};
export const networkQuery = {
  chainId,
  registry,
  ...blocks,
  timestamp,
  partial,
  limit,
  cursor: cursor.openapi({
    description: "The start of the page, from `next` or the `Link` header of the page before.",
  }),
};

export type NetworkValues = AskedBlock & {
  /** As asked for; empty for all. */
  chainId: number[];
  /** The networks to answer for. */
  chains: readonly number[];
  registry: RegistryVersion | "both";
  partial: boolean;
  limit: number;
  cursor?: Cursor | undefined;
};

const check = z
  .enum(CHECK_NAMES, { error: `must be one of ${CHECK_NAMES.join(", ")}` })
  .optional()
  .openapi({
    description:
      "The check. By default `all`, with a contract `contract`, with a token id `token`: a token of any standard. `erc20` and `erc1155` are for balances, which only v2 has.",
  });

/** Of questions for which wallets a wallet may act. */
export const checkQuery = {
  check,
  contract: contract.optional().openapi({ description: "The contract. Without it, the whole wallet." }),
  tokenId: tokenId.optional().openapi({ description: "The token. Without it, the whole contract." }),
  rights,
};

export type CheckValues = {
  check?: CheckName | undefined;
  contract?: Address | undefined;
  tokenId?: string | undefined;
};

/** Finds the check that the parameters name. */
export const chooseCheck = ({ check, contract, tokenId }: CheckValues): CheckName =>
  check ?? (tokenId !== undefined ? "token" : contract !== undefined ? "contract" : "all");

export const versionsOf = (registry: RegistryVersion | "both"): readonly RegistryVersion[] =>
  registry === "both" ? ["v1", "v2"] : [registry];

/** Reports a check that the registry does not have, and parameters that do not fit the check. */
export const validateCheck = (values: CheckValues & { registry?: RegistryVersion | "both" }): ParameterError[] => {
  // An invalid parameter has no key, and is reported already.
  if (!("check" in values && "contract" in values && "tokenId" in values) || !values.registry) return [];
  const check = chooseCheck(values);
  if (values.registry === "v1" && isBalanceCheck(check)) {
    return [{ parameter: "check", message: "is for balances, which only v2 has" }];
  }
  return (["contract", "tokenId"] as const).flatMap((parameter) => {
    const isGiven = values[parameter] !== undefined;
    if (isGiven === takesByName(check, parameter)) return [];
    return [{ parameter, message: isGiven ? `must not be given with the check ${check}` : "is required" }];
  });
};

/** Lists the networks that are asked for and have one of the registries. Without a valid network or registry, none. */
export const findNetworks = (
  shards: Shards,
  { chainId, registry }: Partial<Pick<NetworkValues, "chainId" | "registry">>,
): readonly number[] => {
  if (!chainId || !registry) return [];
  if (chainId.length > 0) return chainId.toSorted((a, b) => a - b);
  return shards.chainIds(registry);
};

/** Reports networks that are not indexed here, and blocks and a cursor that do not fit the networks. */
export const validateNetworks = (
  shards: Shards,
  values: Partial<NetworkValues> & Pick<NetworkValues, "chains">,
): ParameterError[] => {
  const { chainId, registry, block, minBlock } = values;
  if (!chainId || !registry) return validateBlocks(values);
  const unknown = chainId.flatMap((id) => {
    const versions = versionsOf(registry);
    // Of both registries, a network may have one.
    const version = versions.find((version) => networks.get(id)?.[version]) ?? versions[0] ?? "v2";
    return shards.validateChain(version)({ chainId: id });
  });
  const isNumber = block !== "finalized" && (block ?? minBlock) !== undefined;
  const message = "must not be a number with several networks: use timestamp";
  const ofSeveral =
    isNumber && values.chains.length > 1 ? [{ parameter: block === undefined ? "minBlock" : "block", message }] : [];
  const errors = [...unknown.slice(0, 1), ...validateBlocks(values), ...ofSeveral];
  // An invalid block has no key, and is reported already.
  if (errors.length > 0 || !values.cursor || !("block" in values)) return errors;
  return canBeOf(values.cursor, shards, { ...values, chainId }) ? [] : [WRONG_CURSOR];
};

/**
 * Tells if a cursor has only networks of a question, and blocks only if they are what "finalized" meant on the page before:
 * anyone can write a cursor. Without a network that is no longer indexed, the list has to start again.
 */
const canBeOf = (
  cursor: Cursor,
  shards: Shards,
  { block, chainId, chains }: Pick<NetworkValues, "chainId" | "chains" | "block">,
): boolean => {
  const isOfAll = chainId.length === 0;
  // While a shard has not started, its networks are not known: that is a 503.
  const isAsked = (id: number) => chains.includes(id) || (isOfAll && shards.findNotStartedProblem() !== null);
  return (
    // The chain of a position is the first of its last four numbers.
    isAsked(Number(cursor.position.at(-4))) &&
    cursor.blocks.every(([id]) => block === "finalized" && isAsked(Number(id))) &&
    cursor.missing.every((id) => (id === null ? isOfAll : isAsked(id)))
  );
};
