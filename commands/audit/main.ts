import { join } from "node:path";
import { loadEnvFiles, runUntilStopped } from "../../process/program.ts";
import { auditCommand, UNKNOWN } from "./audit-command.ts";

// npm run audit: compares the index with the registries' own answers.

await runUntilStopped(async (signal) => {
  process.exitCode = UNKNOWN;
  loadEnvFiles(join(import.meta.dirname, "../.."));
  process.exitCode = await auditCommand(process.argv.slice(2), {
    environment: process.env,
    print: (text) => console.log(text),
    say: (text) => console.error(text),
    signal,
  });
});
