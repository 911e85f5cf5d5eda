import { SettingsError } from "../stack/settings.ts";
import type { Stack } from "../stack/stack.ts";
import { type LocalChain, startLocalChain } from "./chain.ts";
import type { ContractCode } from "./contracts.ts";
import { sendSamples } from "./samples.ts";

export const BLOCK_SECONDS = 2;

type ChainPort = { chainId: number; port: number };

/** The sandbox's chains, each with its port: SANDBOX_PORT and the next. */
export const readChainPorts = (environment: NodeJS.ProcessEnv): ChainPort[] => {
  const firstPort = Number(environment.SANDBOX_PORT || 8545);
  if (!Number.isInteger(firstPort) || firstPort < 1 || firstPort > 65_534) {
    throw new SettingsError(["SANDBOX_PORT must be a whole number from 1 to 65534."]);
  }
  return [1, 137].map((chainId, index) => ({ chainId, port: firstPort + index }));
};

/** Starts the chains, as parts of a stack. They mine when told to. */
export const startChains = (stack: Stack, ports: readonly ChainPort[], code: ContractCode): Promise<LocalChain[]> =>
  Promise.all(
    ports.map(({ chainId, port }) =>
      stack.add(`Chain ${chainId}`, async () => {
        const chain = await startLocalChain(chainId, code, { port });
        // It runs in this process, and ends with it.
        return { ...chain, ended: new Promise(() => {}) };
      }),
    ),
  );

/** Sends the samples, and has the chains mine by the clock from then on. */
export const bringToLife = async (chains: readonly LocalChain[], code: ContractCode): Promise<void> => {
  await Promise.all(chains.map((chain) => sendSamples(chain, code)));
  await Promise.all(chains.map(({ client }) => client.setIntervalMining({ interval: BLOCK_SECONDS })));
};
