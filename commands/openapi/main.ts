import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { createApp } from "../../api/app.ts";
import { Database } from "../../api/database/database.ts";
import { readBuild } from "../../api/health/read-build.ts";
import { SlidingWindow } from "../../api/limits/sliding-window.ts";
import { parseApiSettings } from "../../api/settings.ts";
import { renderClientChecks } from "./render-client-checks.ts";

// npm run openapi: writes the service's /openapi.json to docs/openapi.json, and the checks of the client.

const ROOT = join(import.meta.dirname, "../..");

writeFileSync(join(ROOT, "client/src/checks.ts"), renderClientChecks());

// The service only describes itself: it needs no database and serves no requests.
const log = pino({ enabled: false });
const database = new Database("", log);
const settings = parseApiSettings({});
const { document } = await createApp(settings, {
  primary: database,
  database,
  limiter: new SlidingWindow(settings.limit),
  build: readBuild({}),
  log,
});
writeFileSync(join(ROOT, "docs/openapi.json"), JSON.stringify(document, null, 2));
