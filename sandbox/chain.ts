import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { resolveConfig } from "hardhat/internal/core/config/config-resolution.js";
import { createProvider } from "hardhat/internal/core/providers/construction.js";
import { JsonRpcHandler } from "hardhat/internal/hardhat-network/jsonrpc/handler.js";
import { type Address, createTestClient, custom, publicActions, walletActions } from "viem";
import { networks } from "../registry/networks.ts";
import type { ContractCode } from "./contracts.ts";

type Provider = Awaited<ReturnType<typeof createProvider>>;

const createChainClient = (provider: Provider) =>
  createTestClient({ mode: "hardhat", transport: custom(provider, { retryCount: 0 }), cacheTime: 0 })
    .extend(publicActions)
    .extend(walletActions);

export type LocalChain = {
  chainId: number;
  url: string;
  client: ReturnType<typeof createChainClient>;
  /** Wallets with a balance, which sign by themselves. */
  accounts: readonly Address[];
  stop: () => Promise<void>;
};

type Options = { port?: number; startsAt?: Date };

/**
 * Starts a Hardhat node as one of the known networks, with the registries at their real addresses. It runs in this
 * process, on threads of its own: `hardhat node` needs a process for each chain, and seconds to start it.
 */
export const startLocalChain = async (
  chainId: number,
  code: ContractCode,
  { port = 0, startsAt = new Date() }: Options = {},
): Promise<LocalChain> => {
  const network = networks.get(chainId);
  if (!network) throw new Error(`There is no network with chain id ${chainId}.`);

  const provider = await createProvider(configureChain(chainId, startsAt), "hardhat");
  const server = createServer(new JsonRpcHandler(provider).handleHttp);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  const { port: actualPort } = server.address() as AddressInfo;

  const client = createChainClient(provider);
  if (network.v1) await client.setCode({ address: network.v1.address, bytecode: code.DelegationRegistryV1 });
  if (network.v2) await client.setCode({ address: network.v2.address, bytecode: code.DelegateRegistryV2 });
  return {
    chainId,
    url: `http://127.0.0.1:${actualPort}`,
    client,
    accounts: await client.getAddresses(),
    stop: async () => {
      await client.setIntervalMining({ interval: 0 });
      server.close();
      server.closeAllConnections();
    },
  };
};

/** A chain that mines when told to; the sandbox then has it mine by the clock. */
const configureChain = (chainId: number, startsAt: Date) =>
  resolveConfig(import.meta.filename, {
    solidity: "0.8.28",
    networks: {
      hardhat: {
        chainId,
        initialDate: startsAt.toISOString(),
        mining: { auto: false, interval: 0, mempool: { order: "fifo" } },
        blockGasLimit: 300_000_000,
        // Blocks filled to any degree leave the base fee at zero.
        initialBaseFeePerGas: 0,
      },
    },
  });
