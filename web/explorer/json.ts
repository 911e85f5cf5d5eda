import type { LiveChange } from "../shared/use-changes.ts";

/** A change on any network, of /insights/newest: docs/insights-api.md. */
export type NewestChangeJson = Pick<
  LiveChange,
  | "kind"
  | "chainId"
  | "type"
  | "tokenStandard"
  | "vault"
  | "delegate"
  | "contract"
  | "blockNumber"
  | "blockTimestamp"
  | "logIndex"
  | "ordinal"
> & { network: string };

export type NewestChangesJson = { newest: NewestChangeJson[] };
