import type { WalletChange } from "../../client/src/index.ts";

/** A change on any network, of /insights/newest: docs/insights-api.md. */
export type NewestChangeJson = Pick<
  WalletChange,
  "kind" | "chainId" | "type" | "tokenStandard" | "vault" | "delegate" | "contract"
> & { network: string; blockTimestamp: number };

export type NewestChangesJson = { newest: NewestChangeJson[] };
