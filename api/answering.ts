import type { Logger } from "pino";
import type { RegistryVersion } from "../registry/networks.ts";
import type { Database } from "./database.ts";
import { headerLines } from "./exchange.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { ParameterError } from "./problem.ts";
import type { Freshness } from "./queries/freshness.ts";
import type { Shards } from "./shards.ts";

/** What the registry's routes answer from. */
export type Source = { database: Database; shards: Shards; batches: Metrics["batches"]; log: Logger };

/** Names a network that is not indexed here, among the bad parameters. */
export const checkChain =
  (shards: Shards, version: RegistryVersion) =>
  ({ chainId }: { chainId?: number }): ParameterError[] => {
    const message = chainId === undefined ? null : shards.refuse(version, chainId);
    return message ? [{ parameter: "chainId", message }] : [];
  };

/** Those of an answer that is true at no block in particular. */
export const JSON_ANSWER = headerLines({ "Content-Type": "application/json", "Cache-Control": "no-store" });

/** The headers of an answer: the block that it is true at, and that nobody may keep it. */
export const answerHeaders = ({ indexedBlock, indexedBlockTimestamp, finalizedBlock }: Freshness): string =>
  `${JSON_ANSWER}X-Indexed-Block: ${indexedBlock}\r\nX-Indexed-Block-Timestamp: ${indexedBlockTimestamp}\r\nX-Finalized-Block: ${finalizedBlock}\r\n`;
