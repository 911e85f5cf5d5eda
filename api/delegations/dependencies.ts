import type { Logger } from "pino";
import type { Database } from "../database/database.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { Shards } from "../shards/shards.ts";

/** Dependencies of the registry's routes. */
export type Dependencies = { database: Database; shards: Shards; batches: Metrics["batches"]; log: Logger };
