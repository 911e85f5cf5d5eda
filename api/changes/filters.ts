import type { Address } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";

// What a reader of changes wants to be told of.

export type Finality = "final" | "latest";

export type Filters = {
  registry: RegistryVersion | "both";
  wallet?: Address | undefined;
  vault?: Address | undefined;
  delegate?: Address | undefined;
  contract?: Address | undefined;
  type?: "ALL" | "CONTRACT" | "TOKEN" | undefined;
};
