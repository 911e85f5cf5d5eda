import type { Address } from "viem";
import { z } from "zod";
import table from "./networks.json" with { type: "json" };

export type RegistryVersion = "v1" | "v2";

const deploymentSchema = z.object({
  /** The published address, checksummed. */
  address: z.custom<Address>((value) => typeof value === "string" && /^0x[0-9a-fA-F]{40}$/.test(value)),
  /** The publisher of the list that has this deployment. */
  listedBy: z.string(),
  /** The proven block of the deployment. */
  startBlock: z.int().nonnegative().nullable(),
  /** A block proven to be no later than the deployment. */
  startBlockFloor: z.int().nonnegative().nullable(),
  deployedAfter: z.iso.datetime(),
  /** Null if no upper bound is proven. */
  deployedBefore: z.iso.datetime().nullable(),
});

const networkSchema = z.object({
  chainId: z.int().positive(),
  name: z.string().min(1),
  /** The network's name in viem's chains, or null if viem does not have it. */
  viem: z.string().nullable(),
  testnet: z.boolean(),
  status: z.enum(["active", "winding-down", "shut-down", "unknown"]),
  /** True only if the network makes no empty blocks and has little traffic: docs/indexing.md, "Quiet networks". */
  quiet: z.boolean().default(false),
  /** The blocks at which the network changed to other software, whose nodes may lack the logs of earlier blocks. */
  migrations: z.array(z.int().positive()).optional(),
  v1: deploymentSchema.nullable(),
  v2: deploymentSchema.nullable(),
});

export type Deployment = z.infer<typeof deploymentSchema>;
export type Network = z.infer<typeof networkSchema>;

/** Every network with a registry, by chain id. */
export const networks: ReadonlyMap<number, Network> = new Map(
  z
    .array(networkSchema)
    .parse(table)
    .map((network) => [network.chainId, network]),
);

export const networkName = (chainId: number): string => networks.get(chainId)?.name ?? `chain ${chainId}`;
