import { join } from "node:path";
import { loadEnvFiles, runUntilStopped } from "../../process/program.ts";
import { webhooksCommand } from "./webhooks-command.ts";

// npm run webhooks: creates, lists and deletes webhooks, and shows their deliveries.

await runUntilStopped(async (signal) => {
  loadEnvFiles(join(import.meta.dirname, "../.."));
  process.exitCode = await webhooksCommand(process.argv.slice(2), {
    environment: process.env,
    signal,
    print: (text) => console.log(text),
    say: (text) => console.error(text),
  });
});
