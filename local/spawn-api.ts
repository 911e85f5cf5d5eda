import { join } from "node:path";
import type { Writable } from "node:stream";
import { API_VARIABLES } from "../api/settings.ts";
import { type Child, startNode } from "../process/child.ts";

/** Starts the API as a child process with the given environment. */
export const spawnApi = (env: NodeJS.ProcessEnv, output?: Writable): Child =>
  startNode(join(import.meta.dirname, "../api/main.ts"), [], {
    output,
    // The child loads .env files, which must not fill in settings that are missing here.
    env: { ...Object.fromEntries(API_VARIABLES.map((name) => [name, ""])), ...env },
  });
