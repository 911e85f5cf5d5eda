import { join } from "node:path";
import { loadEnvFiles, runUntilStopped } from "../stack/program.ts";
import { exportCommand } from "./export-command.ts";

// npm run export: the log of changes, or the delegations at a block, as a file.

await runUntilStopped(async (signal) => {
  loadEnvFiles(join(import.meta.dirname, ".."));
  process.exitCode = await exportCommand(process.argv.slice(2), {
    environment: process.env,
    say: (text) => console.error(text),
    signal,
  });
});
