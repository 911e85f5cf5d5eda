import { join } from "node:path";
import { loadEnvFiles, runUntilStopped } from "../../process/program.ts";
import { keysCommand } from "./keys-command.ts";

// npm run keys: creates, lists and revokes API keys.

await runUntilStopped(async () => {
  loadEnvFiles(join(import.meta.dirname, "../.."));
  process.exitCode = await keysCommand(process.argv.slice(2), {
    environment: process.env,
    print: (text) => console.log(text),
    say: (text) => console.error(text),
  });
});
