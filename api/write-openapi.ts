import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { readBuild } from "./build.ts";
import { Database } from "./database.ts";
import { startLimiter } from "./limits/limiter.ts";
import { createService } from "./service.ts";
import { parseApiSettings } from "./settings.ts";

// npm run openapi: writes down what the service serves at /openapi.json.

const ROOT = join(import.meta.dirname, "..");

// A service that describes itself asks no database, and nobody asks it.
const log = pino({ enabled: false });
const database = new Database("", log);
const settings = parseApiSettings({});
const { document } = await createService(settings, {
  primary: database,
  database,
  limiter: await startLimiter(settings.limit, null, log),
  build: readBuild({}),
  log,
});
writeFileSync(join(ROOT, "docs/openapi.json"), JSON.stringify(document, null, 2));
