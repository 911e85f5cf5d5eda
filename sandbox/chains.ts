import { PassThrough } from "node:stream";
import { logLine, runUntilStopped } from "../stack/program.ts";
import { Stack } from "../stack/stack.ts";
import { clearIndex } from "./clear-index.ts";
import { compileContracts } from "./contracts.ts";
import { bringToLife, readChainPorts, startChains } from "./sample-chains.ts";

// The sandbox's chains alone, for the containers of docker-compose.yml, whose other parts are those of a real service.

await runUntilStopped(async (signal) => {
  const ports = readChainPorts(process.env);
  const host = process.env.SANDBOX_HOST || "127.0.0.1";
  const databaseUrl = process.env.SANDBOX_DATABASE_URL;
  // Before there are chains, and so before anybody indexes them.
  if (databaseUrl) await clearIndex(databaseUrl);

  const stack = new Stack();
  const run = async () => {
    const code = await compileContracts();
    const chains = await startChains(stack, ports, code, { host, outputOf: () => new PassThrough().resume() });
    await bringToLife(chains, code);
    for (const { chainId, port } of ports) logLine(`Chain ${chainId}, with sample delegations, is on port ${port}.`);
    await stack.failed;
  };
  const stopped = new Promise<void>((resolve) => {
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
  try {
    await Promise.race([run(), stack.failed, stopped]);
  } finally {
    await stack.stop();
  }
});
