import { createHash } from "node:crypto";
import { zeroHash } from "viem";
import type { DelegationV1, DelegationV2, Queries, State } from "./index-state.ts";

// Computes the state digest as docs/digest.md defines it, from the registries' own answers.

export const REGISTRIES = ["v1", "v2"] as const;

type Registry = (typeof REGISTRIES)[number];

export const computeDigest = (lines: readonly string[]): string => {
  const total = lines.reduce((sum, line) => sum + BigInt(`0x${createHash("sha256").update(line).digest("hex")}`), 0n);
  return `0x${(total % 2n ** 256n).toString(16).padStart(64, "0")}`;
};

/** Formats a delegation as docs/digest.md defines it. */
const formatDigestLine = (chainId: number, registry: Registry, delegation: DelegationV1 | DelegationV2): string => {
  const { type, vault, delegate, contract, tokenId } = delegation;
  const { rights, amount } = "rights" in delegation ? delegation : { rights: zeroHash, amount: 0n };
  return `${chainId} ${registry} ${type} ${vault} ${delegate} ${contract} ${tokenId} ${rights} ${amount}`.replaceAll(
    /0x[0-9a-fA-F]+/g,
    (hex) => hex.toLowerCase(),
  );
};

export const computeStateDigest = (chainId: number, registry: Registry, state: State): string =>
  computeDigest(state[registry].map((delegation) => formatDigestLine(chainId, registry, delegation)));

/** Reads the digest in SQL at a block, by default the newest. */
export const readDigest = async (
  database: Queries,
  chainId: number,
  registry: string,
  block: bigint | null = null,
): Promise<string> => {
  const { rows } = await database.query("select analytics.state_digest($1, $2, $3) as digest", [
    chainId,
    registry,
    block,
  ]);
  return String(rows[0]?.digest);
};
