import type { Writable } from "node:stream";
import { parseIndexerSettings } from "../indexer/settings.ts";
import { findFreePort } from "../process/ports.ts";
import { startLocalChain } from "./chain.ts";
import { compileContracts } from "./compile-contracts.ts";
import { findHistoryStart, sendSampleHistory } from "./sample-history.ts";
import { startLocalIndexer } from "./start-local-indexer.ts";

type Options = { databaseUrl: string; chainIds: readonly number[]; output: Writable };

/** Indexes the sample delegations of local chains into a database, then stops the chains and the indexer. */
export const indexSamples = async ({ databaseUrl, chainIds, output }: Options): Promise<void> => {
  const code = await compileContracts();
  const chains = await Promise.all(
    chainIds.map((chainId) => startLocalChain(chainId, code, { startsAt: findHistoryStart() })),
  );
  try {
    for (const chain of chains) await sendSampleHistory(chain, code);
    const settings = parseIndexerSettings({
      ...Object.fromEntries(chains.map(({ chainId, url }) => [`PONDER_RPC_URL_${chainId}`, url])),
      ...Object.fromEntries(chainIds.map((chainId) => [`START_BLOCK_${chainId}`, "0"])),
      POLLING_INTERVAL_MS: "200",
      INDEXER_PORT: String(await findFreePort()),
    });
    const log = (message: string) => output.write(`${message}\n`);
    const indexer = startLocalIndexer(settings, {
      databaseUrl,
      log,
      output,
      restart: false,
      onReady: () => indexer.stop(),
    });
    await indexer.exited;
  } finally {
    for (const chain of chains) await chain.stop();
  }
};
