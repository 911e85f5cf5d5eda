import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { resolveConfig } from "hardhat/internal/core/config/config-resolution.js";
import { createProvider } from "hardhat/internal/core/providers/construction.js";
import { JsonRpcHandler } from "hardhat/internal/hardhat-network/jsonrpc/handler.js";
import { getGlobalEdrContext } from "hardhat/internal/hardhat-network/provider/provider.js";
import { type Address, createTestClient, custom, publicActions, walletActions } from "viem";
import { networks } from "../registry/networks.ts";
import type { ContractCode } from "./compile-contracts.ts";

type Provider = Awaited<ReturnType<typeof createProvider>>;

const createChainClient = (provider: Provider) =>
  createTestClient({ mode: "hardhat", transport: custom(provider, { retryCount: 0 }), cacheTime: 0 })
    .extend(publicActions)
    .extend(walletActions);

export type LocalChain = {
  chainId: number;
  url: string;
  client: ReturnType<typeof createChainClient>;
  /** Funded wallets whose keys the node holds. */
  accounts: readonly Address[];
  stop: () => Promise<void>;
};

type Options = {
  port?: number;
  startsAt?: Date;
  /** Allows several blocks per second: otherwise each block is at least a second later than the one before it. */
  allowBlocksWithSameTimestamp?: boolean;
};

/**
 * Starts a Hardhat node as one of the known networks, with the registries at their real addresses. The node runs in this
 * process, on its own threads: `hardhat node` needs one process per chain and takes seconds to start.
 */
export const startLocalChain = async (
  chainId: number,
  code: ContractCode,
  { port = 0, startsAt = new Date(), allowBlocksWithSameTimestamp = false }: Options = {},
): Promise<LocalChain> => {
  const network = networks.get(chainId);
  if (!network) throw new Error(`There is no network with chain id ${chainId}.`);

  await loadEvm();
  const provider = await createProvider(configureChain(chainId, startsAt, allowBlocksWithSameTimestamp), "hardhat");
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

let evm: Promise<unknown> | undefined;

/** Waits until Hardhat's EVM is loaded. Hardhat itself returns the EVM to a second caller before it is ready. */
const loadEvm = () => {
  evm ??= getGlobalEdrContext();
  return evm;
};

/** Configures a chain that mines on request only. The sandbox later switches it to interval mining. */
const configureChain = (chainId: number, startsAt: Date, allowBlocksWithSameTimestamp: boolean) =>
  resolveConfig(import.meta.filename, {
    solidity: "0.8.28",
    networks: {
      hardhat: {
        chainId,
        allowBlocksWithSameTimestamp,
        initialDate: startsAt.toISOString(),
        mining: { auto: false, interval: 0, mempool: { order: "fifo" } },
        blockGasLimit: 300_000_000,
        // A base fee of zero stays zero, however full the blocks are.
        initialBaseFeePerGas: 0,
      },
    },
  });
