import { join } from "node:path";
import type { Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { type Address, createTestClient, http, publicActions, walletActions } from "viem";
import { networks } from "../registry/networks.ts";
import { type Exit, startNode } from "../stack/child.ts";
import type { ContractCode } from "./contracts.ts";

const HARDHAT = join(import.meta.dirname, "../node_modules/hardhat/internal/cli/cli.js");
const CONFIG = join(import.meta.dirname, "hardhat.config.cjs");
const START_MS = 60_000;

const createChainClient = (url: string) =>
  createTestClient({
    mode: "hardhat",
    transport: http(url, { retryCount: 0, timeout: 30_000 }),
    cacheTime: 0,
  })
    .extend(publicActions)
    .extend(walletActions);

export type LocalChain = {
  chainId: number;
  url: string;
  client: ReturnType<typeof createChainClient>;
  /** Wallets with a balance, which sign by themselves. */
  accounts: readonly Address[];
  exited: Promise<Exit>;
  stop: () => Promise<void>;
};

/** Starts a Hardhat node as one of the known networks, with the registries at their real addresses. */
export const startLocalChain = async (
  chainId: number,
  port: number,
  code: ContractCode,
  { output, startsAt = new Date() }: { output: Writable; startsAt?: Date },
): Promise<LocalChain> => {
  const network = networks.get(chainId);
  if (!network) throw new Error(`There is no network with chain id ${chainId}.`);

  const node = startNode(HARDHAT, ["--config", CONFIG, "node", "--hostname", "127.0.0.1", "--port", String(port)], {
    env: {
      ...process.env,
      SANDBOX_CHAIN_ID: String(chainId),
      SANDBOX_CHAIN_STARTS_AT: startsAt.toISOString(),
      HARDHAT_DISABLE_TELEMETRY_PROMPT: "true",
    },
    output,
  });
  const url = `http://127.0.0.1:${port}`;
  const client = createChainClient(url);

  const isUp = async () => {
    for (const deadline = Date.now() + START_MS; Date.now() < deadline; await sleep(100)) {
      if (await client.getChainId().catch(() => null)) return true;
    }
    return false;
  };
  const ended = node.exited.then(() => false);
  if (!(await Promise.race([isUp(), ended]))) {
    await node.stop();
    throw new Error(`The local chain ${chainId} did not start on port ${port}.`);
  }

  await client.setLoggingEnabled(false);
  if (network.v1) await client.setCode({ address: network.v1.address, bytecode: code.DelegationRegistryV1 });
  if (network.v2) await client.setCode({ address: network.v2.address, bytecode: code.DelegateRegistryV2 });
  return { chainId, url, client, accounts: await client.getAddresses(), exited: node.exited, stop: node.stop };
};
