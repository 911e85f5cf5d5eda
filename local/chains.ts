import { connect, createServer } from "node:net";
import { pipeline } from "node:stream/promises";
import { findFreePort } from "../process/ports.ts";
import { logLine, runUntilStopped, untilAborted } from "../process/program.ts";
import { clearIndex } from "./clear-index.ts";
import { compileContracts } from "./compile-contracts.ts";
import { readChainPorts, sendSamplesAndMine, startChains } from "./sample-chains.ts";
import { Stack } from "./stack.ts";

// The sandbox's chains for docker-compose.yml. The other containers are the same as for real networks.

/** Forwards connections to a port on loopback. */
const forwardPort = (innerPort: number, host: string, port: number) =>
  new Promise<void>((resolve, reject) => {
    const server = createServer((client) => {
      pipeline(client, connect(innerPort, "127.0.0.1"), client).catch(() => {});
    });
    server.once("error", reject);
    server.listen(port, host, resolve);
  });

await runUntilStopped(async (signal) => {
  const ports = readChainPorts(process.env);
  const host = process.env.SANDBOX_HOST || "127.0.0.1";
  const databaseUrl = process.env.SANDBOX_DATABASE_URL;
  // Clear the index before the chains start: nothing indexes them yet.
  if (databaseUrl) await clearIndex(databaseUrl);

  const stack = new Stack();
  const run = async () => {
    const code = await compileContracts();
    const innerPorts = await Promise.all(ports.map(async ({ chainId }) => ({ chainId, port: await findFreePort() })));
    const chains = await startChains(stack, innerPorts, code);
    await sendSamplesAndMine(chains, code);
    // Open the public ports last: every client sees all samples.
    for (const [index, { chainId, port }] of ports.entries()) {
      await forwardPort(innerPorts[index]?.port ?? 0, host, port);
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
