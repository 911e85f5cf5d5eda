import { connect, createServer } from "node:net";
import { pipeline } from "node:stream/promises";
import { findFreePort } from "../stack/ports.ts";
import { logLine, runUntilStopped, untilAborted } from "../stack/program.ts";
import { Stack } from "../stack/stack.ts";
import { clearIndex } from "./clear-index.ts";
import { compileContracts } from "./contracts.ts";
import { bringToLife, readChainPorts, startChains } from "./sample-chains.ts";

// The sandbox's chains alone, for the containers of docker-compose.yml, whose other parts are those of a real service.

/** Lets others reach a port of loopback. */
const open = (inner: number, host: string, port: number) =>
  new Promise<void>((resolve, reject) => {
    const server = createServer((outside) => {
      const inside = connect(inner, "127.0.0.1");
      pipeline(outside, inside, outside).catch(() => {});
    });
    server.once("error", reject);
    server.listen(port, host, resolve);
  });

await runUntilStopped(async (signal) => {
  const ports = readChainPorts(process.env);
  const host = process.env.SANDBOX_HOST || "127.0.0.1";
  const databaseUrl = process.env.SANDBOX_DATABASE_URL;
  // Before there are chains, and so before anybody indexes them.
  if (databaseUrl) await clearIndex(databaseUrl);

  const stack = new Stack();
  const run = async () => {
    const code = await compileContracts();
    const inner = await Promise.all(ports.map(async ({ chainId }) => ({ chainId, port: await findFreePort() })));
    const chains = await startChains(stack, inner, code);
    await bringToLife(chains, code);
    // Not before the samples are there: whoever sees the chains sees all of them.
    for (const [index, { chainId, port }] of ports.entries()) {
      await open(inner[index]?.port ?? 0, host, port);
      logLine(`Chain ${chainId}, with sample delegations, is on port ${port}.`);
    }
    await stack.failed;
  };
  try {
    await Promise.race([run(), stack.failed, untilAborted(signal)]);
  } finally {
    await stack.stop();
  }
});
