import { join } from "node:path";
import type { Writable } from "node:stream";
import { type Child, startNode } from "../stack/child.ts";
import { API_VARIABLES, type ApiSettings } from "./settings.ts";

/** The API as a process of its own beside this one, for a stack on one machine. */
export const startApiProcess = (settings: ApiSettings, databaseUrl: string, output?: Writable): Child =>
  startNode(join(import.meta.dirname, "main.ts"), [], {
    output,
    env: {
      // What is not set here is not to be found in a file there.
      ...Object.fromEntries(API_VARIABLES.map((name) => [name, ""])),
      ...process.env,
      DATABASE_URL: databaseUrl,
      DATABASE_READ_URL: settings.databaseReadUrl ?? "",
      PUBLIC_URL: settings.publicUrl ?? "",
      INDEX_SCHEMAS: settings.shards.join(),
      HOST: settings.host,
      PORT: String(settings.port),
      MAX_INDEX_LAG_SECONDS: String(settings.maxIndexLagSeconds),
      RATE_LIMIT_REQUESTS: String(settings.limit.requests),
      RATE_LIMIT_WINDOW_SECONDS: String(settings.limit.windowMs / 1000),
      ...Object.fromEntries([...settings.rpcUrls].map(([chainId, urls]) => [`PONDER_RPC_URL_${chainId}`, urls.join()])),
      METRICS_PORT: String(settings.metricsPort),
      LOG_LEVEL: settings.logLevel,
    },
  });
