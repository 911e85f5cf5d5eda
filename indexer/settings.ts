import { z } from "zod";
import {
  dropEmptyVariables,
  integer,
  isUrl,
  listProblems,
  logLevel,
  port,
  SettingsError,
  type Variables,
} from "../process/settings.ts";
import { type Network, networks } from "../registry/networks.ts";
import { shardName } from "../registry/shard-name.ts";

export type ChainSettings = {
  network: Network;
  rpcUrls: string[];
  wsUrl: string | null;
  /** First block to index, for both registries, if the operator has set one. */
  startBlock: number | null;
  /** Number of blocks in one request for logs, if the operator has set one. */
  logsRange: number | null;
};

export type IndexerSettings = {
  /** The shard's name, which is also the name of the schema with its views. */
  shard: string;
  chains: ChainSettings[];
  pollingIntervalMs: number;
  /** Time that the index of a chain may stand still before Ponder is restarted. */
  stallTimeoutMs: number;
  /** Requests a day to each chain that compare wallets which do not change with the registries. */
  verificationRequestsPerDay: number;
  /** Maximum duration of an analyst's transaction. */
  analystMaxSeconds: number;
  /** The address of Ponder's private port. */
  host: string;
  port: number;
  logLevel: string;
};

/** The RPC URLs of a chain, separated by commas. */
export const rpcUrlList = z
  .string()
  .transform((value) => value.split(",").map((url) => url.trim()))
  .refine((urls) => urls.every(isUrl(["http:", "https:", "ws:", "wss:"])), {
    error: "must be one or more URLs separated by commas, each http, https, ws or wss",
  });

const webSocketUrl = z.string().refine(isUrl(["ws:", "wss:"]), { error: "must be a ws or wss URL" });

const general = z.object({
  SHARD: shardName.default("registry"),
  CHAINS: z
    .string()
    .regex(/^\d+(\s*,\s*\d+)*$/, { error: "must be chain ids separated by commas, such as 1,137" })
    .transform((value) => [...new Set(value.split(",").map(Number))])
    .optional(),
  POLLING_INTERVAL_MS: integer(50, 600_000).default(1000),
  STALL_TIMEOUT_SECONDS: integer(5, 86_400).default(300),
  VERIFICATION_REQUESTS_PER_DAY: integer(0, 1_000_000).default(2_880),
  ANALYST_MAX_SECONDS: integer(1, 86_400).default(60),
  INDEXER_HOST: z.string().default("127.0.0.1"),
  INDEXER_PORT: port.default(42_069),
  LOG_LEVEL: logLevel,
});

/** The settings whose names end in a chain id. */
const PER_CHAIN = {
  PONDER_RPC_URL_: rpcUrlList,
  PONDER_WS_URL_: webSocketUrl,
  START_BLOCK_: integer(0, Number.MAX_SAFE_INTEGER),
  LOGS_RANGE_: integer(1, 1_000_000),
};

/** The names of all settings; per-chain names without the chain id. */
export const INDEXER_VARIABLES = [...Object.keys(general.shape), ...Object.keys(PER_CHAIN)];

const parsePerChain = <T>(variables: Variables, prefix: string, schema: z.ZodType<T>, problems: string[]) => {
  const values = new Map<number, T>();
  for (const [name, value] of Object.entries(variables)) {
    if (!name.startsWith(prefix)) continue;
    const id = name.slice(prefix.length);
    const network = /^[1-9]\d*$/.test(id) ? networks.get(Number(id)) : undefined;
    const parsed = schema.safeParse(value);
    if (!network) problems.push(`${name}: ${describeUnknownChain(id)}`);
    else if (parsed.success) values.set(network.chainId, parsed.data);
    else problems.push(`${name} ${parsed.error.issues[0]?.message}.`);
  }
  return values;
};

/** Reads an indexer's settings from the environment. Throws a SettingsError with every problem. */
export const parseIndexerSettings = (environment: NodeJS.ProcessEnv): IndexerSettings => {
  const variables = dropEmptyVariables(environment);
  const problems: string[] = [];
  const rpcUrls = parsePerChain(variables, "PONDER_RPC_URL_", PER_CHAIN.PONDER_RPC_URL_, problems);
  const wsUrls = parsePerChain(variables, "PONDER_WS_URL_", PER_CHAIN.PONDER_WS_URL_, problems);
  const startBlocks = parsePerChain(variables, "START_BLOCK_", PER_CHAIN.START_BLOCK_, problems);
  const logsRanges = parsePerChain(variables, "LOGS_RANGE_", PER_CHAIN.LOGS_RANGE_, problems);
  const parsed = general.safeParse(variables);
  if (!parsed.success) problems.push(...listProblems(parsed.error));
  const chosen = general.shape.CHAINS.safeParse(variables.CHAINS).data;
  problems.push(
    ...listMissingRpcs(variables, chosen ?? [], {
      PONDER_WS_URL_: [...wsUrls.keys()],
      START_BLOCK_: [...startBlocks.keys()],
      LOGS_RANGE_: [...logsRanges.keys()],
    }),
  );

  if (!parsed.success || problems.length > 0) throw new SettingsError(problems);
  const { data } = parsed;
  return {
    shard: data.SHARD,
    chains: [...networks.values()]
      .filter(({ chainId }) => chosen?.includes(chainId) ?? true)
      .flatMap((network) => {
        const { chainId } = network;
        const urls = rpcUrls.get(chainId);
        if (!urls) return [];
        const [wsUrl, startBlock] = [wsUrls.get(chainId) ?? null, startBlocks.get(chainId) ?? null];
        return { network, rpcUrls: urls, wsUrl, startBlock, logsRange: logsRanges.get(chainId) ?? null };
      })
      .sort((a, b) => a.network.chainId - b.network.chainId),
    pollingIntervalMs: data.POLLING_INTERVAL_MS,
    stallTimeoutMs: data.STALL_TIMEOUT_SECONDS * 1000,
    verificationRequestsPerDay: data.VERIFICATION_REQUESTS_PER_DAY,
    analystMaxSeconds: data.ANALYST_MAX_SECONDS,
    host: data.INDEXER_HOST,
    port: data.INDEXER_PORT,
    logLevel: data.LOG_LEVEL,
  };
};

/**
 * Lists the chains that the settings name without an RPC.
 * @param chosen the chains of CHAINS
 * @param others the chains of other settings, by the prefix of the setting
 */
const listMissingRpcs = (
  variables: Variables,
  chosen: readonly number[],
  others: Record<string, readonly number[]>,
): string[] => {
  const hasRpc = (chainId: number) => variables[`PONDER_RPC_URL_${chainId}`] !== undefined;
  const problems: string[] = [];
  for (const chainId of chosen) {
    if (!networks.has(chainId)) problems.push(`CHAINS: ${describeUnknownChain(String(chainId))}`);
    else if (!hasRpc(chainId)) {
      problems.push(`CHAINS names chain ${chainId}, which has no RPC: set PONDER_RPC_URL_${chainId}.`);
    }
  }
  for (const [prefix, chainIds] of Object.entries(others)) {
    for (const chainId of chainIds.filter((chainId) => !hasRpc(chainId))) {
      problems.push(`${prefix}${chainId} is set, but chain ${chainId} has no RPC: set PONDER_RPC_URL_${chainId}.`);
    }
  }
  if (!Object.keys(variables).some((name) => name.startsWith("PONDER_RPC_URL_"))) {
    problems.push(
      "No chain to index: set PONDER_RPC_URL_<chainId>, for example PONDER_RPC_URL_1=https://… for Ethereum.",
    );
  }
  return problems;
};

/** The known chain ids, for error messages. */
export const knownChains = [...networks.keys()].sort((a, b) => a - b).join(", ");

const describeUnknownChain = (id: string) =>
  `there is no registry on a chain "${id}"; known chain ids are ${knownChains}.`;
