import { SettingsError } from "../process/settings.ts";
import { type LocalChain, startLocalChain } from "./chain.ts";
import type { ContractCode } from "./compile-contracts.ts";
import { findHistoryStart, sendSampleHistory } from "./sample-history.ts";
import type { Stack } from "./stack.ts";

export const BLOCK_SECONDS = 2;

type ChainPort = { chainId: number; port: number };

/** Assigns a port to each of the sandbox's chains: SANDBOX_PORT and the next one. */
export const readChainPorts = (environment: NodeJS.ProcessEnv): ChainPort[] => {
  const firstPort = Number(environment.SANDBOX_PORT || 8545);
  if (!Number.isInteger(firstPort) || firstPort < 1 || firstPort > 65_534) {
    throw new SettingsError(["SANDBOX_PORT must be a whole number from 1 to 65534."]);
  }
  return [1, 137].map((chainId, index) => ({ chainId, port: firstPort + index }));
};

/** Starts the chains as parts of a stack. They mine on request only. */
export const startChains = (stack: Stack, ports: readonly ChainPort[], code: ContractCode): Promise<LocalChain[]> =>
  Promise.all(
    ports.map(({ chainId, port }) =>
      stack.add(`Chain ${chainId}`, () => startLocalChain(chainId, code, { port, startsAt: findHistoryStart() })),
    ),
  );

/** Sends the samples, then switches the chains to interval mining. */
export const sendSamplesAndMine = async (chains: readonly LocalChain[], code: ContractCode): Promise<void> => {
  await Promise.all(chains.map((chain) => sendSampleHistory(chain, code)));
  await Promise.all(chains.map(({ client }) => client.setIntervalMining({ interval: BLOCK_SECONDS })));
};
