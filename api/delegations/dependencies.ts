import type { Logger } from "pino";
import type { Database } from "../database/database.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { Proofs } from "../proofs/proofs.ts";
import type { Shards } from "../shards/shards.ts";
import type { DelegationChecks } from "./check-delegation.ts";

/** Dependencies of the registry's routes. */
export type Dependencies = {
  database: Database;
  shards: Shards;
  batches: Metrics["batches"];
  checks: DelegationChecks;
  proofs: Proofs;
  log: Logger;
};
