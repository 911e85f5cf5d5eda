import type { Address } from "viem";
import { z } from "zod";
import table from "./networks.json" with { type: "json" };

export type RegistryVersion = "v1" | "v2";

const deploymentSchema = z.object({
  /** As published, checksummed. */
  address: z.custom<Address>((value) => typeof value === "string" && /^0x[0-9a-fA-F]{40}$/.test(value)),
  /** Whose list names this deployment. */
  listedBy: z.string(),
  /** The proven block of the deployment. */
  startBlock: z.int().nonnegative().nullable(),
  /** A block proven to be no later than the deployment. */
  startBlockFloor: z.int().nonnegative().nullable(),
  /** The deployment happened between these two moments; null where the end is not proven. */
  deployedAfter: z.iso.datetime(),
  deployedBefore: z.iso.datetime().nullable(),
});

const networkSchema = z.object({
  chainId: z.int().positive(),
  name: z.string().min(1),
  /** The network's name in viem's chains, where viem knows it. */
  viem: z.string().nullable(),
  testnet: z.boolean(),
  status: z.enum(["active", "winding-down", "shut-down", "unknown"]),
  v1: deploymentSchema.nullable(),
  v2: deploymentSchema.nullable(),
});

export type Deployment = z.infer<typeof deploymentSchema>;
export type Network = z.infer<typeof networkSchema>;

/** Every network that a registry lives on, by chain id. */
export const networks: ReadonlyMap<number, Network> = new Map(
  z
    .array(networkSchema)
    .parse(table)
    .map((network) => [network.chainId, network]),
);

/** What people call a chain. */
export const networkName = (chainId: number): string => networks.get(chainId)?.name ?? `chain ${chainId}`;
