import { join } from "node:path";
import pg from "pg";
import { onTestFinished } from "vitest";
import { startNode } from "../../stack/child.ts";
import { keepOutput } from "./output.ts";
import { uniqueName } from "./unique-name.ts";

/** `npm run roles`, to its end. */
export const runRoles = async (env: NodeJS.ProcessEnv): Promise<{ code: number | null; output: string }> => {
  const { output, printed } = keepOutput();
  const child = startNode(join(import.meta.dirname, "../../roles/main.ts"), [], {
    output,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
  });
  const { code } = await child.exited;
  return { code, output: printed() };
};

/** Settings of `npm run roles` for a database, with roles that no other test has. They go with the test. */
export const rolesFor = (databaseUrl: string) => {
  const [indexer, api, analyst] = [uniqueName("indexer"), uniqueName("api"), uniqueName("analyst")];
  onTestFinished(async () => {
    const client = new pg.Client(databaseUrl);
    await client.connect();
    for (const role of [analyst, api, indexer]) {
      await client.query(`drop owned by ${role} cascade; drop role ${role}`).catch(() => {});
    }
    await client.end();
  });
  const env = {
    DATABASE_URL: databaseUrl,
    INDEXER_ROLE: indexer,
    INDEXER_PASSWORD: "indexer's+secret",
    API_ROLE: api,
    API_PASSWORD: "api's/secret/$1",
    ANALYST_ROLE: analyst,
    ANALYST_PASSWORD: "analyst's@secret",
  };
  const urlOf = (role: string, password: string) => {
    const url = new URL(databaseUrl);
    [url.username, url.password] = [role, encodeURIComponent(password)];
    return url.href;
  };
  return {
    env,
    roles: { indexer, api, analyst },
    urls: {
      indexer: urlOf(indexer, env.INDEXER_PASSWORD),
      api: urlOf(api, env.API_PASSWORD),
      analyst: urlOf(analyst, env.ANALYST_PASSWORD),
    },
    urlOf,
  };
};
