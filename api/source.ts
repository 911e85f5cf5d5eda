import type { Logger } from "pino";
import type { Database } from "./database.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { Shards } from "./shards.ts";

/** What the registry's routes answer from. */
export type Source = { database: Database; shards: Shards; batches: Metrics["batches"]; log: Logger };
