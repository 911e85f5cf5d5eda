import { join } from "node:path";
import { loadEnvFiles, runUntilStopped } from "../../process/program.ts";
import { rolesCommand } from "./roles-command.ts";

// npm run roles: creates a database role each for the indexer, the API and analysts, or a login for one analyst.

await runUntilStopped(async () => {
  loadEnvFiles(join(import.meta.dirname, "../.."));
  process.exitCode = await rolesCommand(process.argv.slice(2), process.env, {
    print: (text) => console.log(text),
    say: (text) => console.error(text),
  });
});
