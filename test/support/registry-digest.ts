import { createHash } from "node:crypto";
import { zeroHash } from "viem";
import type { DelegationV1, DelegationV2, Queries, State } from "./index-state.ts";

// Another way to the state digest: as docs/digest.md says it, from what the registries themselves answer.

export const REGISTRIES = ["v1", "v2"] as const;

type Registry = (typeof REGISTRIES)[number];

export const digestOf = (lines: readonly string[]): string => {
  const total = lines.reduce((sum, line) => sum + BigInt(`0x${createHash("sha256").update(line).digest("hex")}`), 0n);
  return `0x${(total % 2n ** 256n).toString(16).padStart(64, "0")}`;
};

/** The line of a delegation, as docs/digest.md has it. */
const digestLine = (chainId: number, registry: Registry, delegation: DelegationV1 | DelegationV2): string => {
  const { type, vault, delegate, contract, tokenId } = delegation;
  const { rights, amount } = "rights" in delegation ? delegation : { rights: zeroHash, amount: 0n };
  return `${chainId} ${registry} ${type} ${vault} ${delegate} ${contract} ${tokenId} ${rights} ${amount}`.replaceAll(
    /0x[0-9a-fA-F]+/g,
    (hex) => hex.toLowerCase(),
  );
};

export const digestOfState = (chainId: number, registry: Registry, state: State): string =>
  digestOf(state[registry].map((delegation) => digestLine(chainId, registry, delegation)));

/** What SQL says it is at a block, or at the newest one. */
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
