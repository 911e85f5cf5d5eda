import { readFileSync } from "node:fs";
import { join } from "node:path";
import { dropEmptyVariables } from "../../process/settings.ts";
import type { Build } from "./health-routes.ts";

/** Reads the build from the image's variables (see the Dockerfile), or outside a container from package.json. */
export const readBuild = (environment: NodeJS.ProcessEnv): Build => {
  const { BUILD_VERSION, BUILD_COMMIT, BUILD_TIME } = dropEmptyVariables(environment);
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, "../../package.json"), "utf8"));
  return {
    version: BUILD_VERSION ?? version,
    commit: BUILD_COMMIT ?? null,
    builtAt: BUILD_TIME ?? null,
    startedAt: new Date(),
  };
};
