import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setVariables } from "../stack/settings.ts";
import type { Build } from "./routes/health.ts";

/** What this process was built from: as the image says (see the Dockerfile), or outside of one the project. */
export const readBuild = (environment: NodeJS.ProcessEnv): Build => {
  const { BUILD_VERSION, BUILD_COMMIT, BUILD_TIME } = setVariables(environment);
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "../package.json"), "utf8"));
  return {
    version: BUILD_VERSION ?? version,
    commit: BUILD_COMMIT ?? null,
    builtAt: BUILD_TIME ?? null,
    startedAt: new Date(),
  };
};
