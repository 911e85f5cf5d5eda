import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { loadAssets } from "../web/build.ts";
import { createApp } from "./app.ts";
import { readBuild } from "./build.ts";
import { Database } from "./database.ts";
import { Insights } from "./insights.ts";
import { KeyDirectory } from "./keys/key-directory.ts";
import { KeyUsage } from "./keys/key-usage.ts";
import { startLimiter } from "./limits/limiter.ts";
import { createMetrics } from "./metrics/metrics.ts";
import { loadVerifierLater } from "./portal/load-verifier.ts";
import { readInsights } from "./queries/read-insights.ts";
import { parseApiSettings } from "./settings.ts";
import { Shards } from "./shards.ts";
import { StateDigests } from "./state-digests.ts";

// npm run openapi: writes down what the service serves at /openapi.json.

const ROOT = join(import.meta.dirname, "..");

// A service that describes itself asks no database, and nobody asks it.
const log = pino({ enabled: false });
const database = new Database("", log);
const { limit, keysPerWallet } = parseApiSettings({});
const limiter = await startLimiter(limit, null, log);
const build = readBuild({});
const shards = new Shards(database, [], 0);
const metrics = createMetrics({ database, primary: database, shards, limiter, version: build.version });
const keys = new KeyDirectory(database, metrics.batches.keys);
const { document } = createApp(
  {
    database,
    shards,
    batches: metrics.batches,
    digests: new StateDigests(database, shards),
    insights: new Insights(
      () => readInsights(database),
      () => {},
    ),
  },
  {
    keys,
    usage: new KeyUsage(database),
    limiter,
    trustedProxies: null,
    metrics,
  },
  build,
  { log, addLine: () => {} },
  await loadAssets(),
  { database, keys, verify: loadVerifierLater(new Map()), publicUrl: null, keysPerWallet },
);
writeFileSync(join(ROOT, "docs/openapi.json"), JSON.stringify(document, null, 2));
