import { join } from "node:path";
import { loadEnvFiles, runUntilStopped } from "../../process/program.ts";
import { exportCommand } from "./export-command.ts";

// npm run export: writes the log of changes, or the delegations at a block, to a file.

await runUntilStopped(async (signal) => {
  loadEnvFiles(join(import.meta.dirname, "../.."));
  process.exitCode = await exportCommand(process.argv.slice(2), {
    environment: process.env,
    say: (text) => console.error(text),
    signal,
  });
});
