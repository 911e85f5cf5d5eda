import { z } from "zod";
import { type Network, networks } from "../registry/networks.ts";
import { shardName } from "../registry/shard-name.ts";
import { integer, isUrl, logLevel, port, problemsOf, SettingsError, setVariables } from "../stack/settings.ts";

export type ChainSettings = {
  network: Network;
  rpcUrls: string[];
  wsUrl: string | null;
  /** First block to index, for both registries, where the operator has set one. */
  startBlock: number | null;
};

export type IndexerSettings = {
  /** The shard's name, and its views schema. */
  shard: string;
  chains: ChainSettings[];
  pollingIntervalMs: number;
  /** Where Ponder's private port listens. */
  host: string;
  port: number;
  logLevel: string;
};

/** The URLs of a chain's RPC. */
export const rpcUrlList = z
  .string()
  .transform((value) => value.split(",").map((url) => url.trim()))
  .refine((urls) => urls.every(isUrl(["http:", "https:", "ws:", "wss:"])), {
    error: "must be one URL or several with commas, each http, https, ws or wss",
  });

const webSocketUrl = z.string().refine(isUrl(["ws:", "wss:"]), { error: "must be a ws or wss URL" });

const general = z.object({
  SHARD: shardName.default("registry"),
  CHAINS: z
    .string()
    .regex(/^\d+(\s*,\s*\d+)*$/, { error: "must be chain ids with commas, such as 1,137" })
    .transform((value) => [...new Set(value.split(",").map(Number))])
    .optional(),
  POLLING_INTERVAL_MS: integer(50, 600_000).default(1000),
  INDEXER_HOST: z.string().default("127.0.0.1"),
  INDEXER_PORT: port.default(42_069),
  LOG_LEVEL: logLevel,
});

/** The settings that end in a chain id. */
const PER_CHAIN = {
  PONDER_RPC_URL_: rpcUrlList,
  PONDER_WS_URL_: webSocketUrl,
  START_BLOCK_: integer(0, Number.MAX_SAFE_INTEGER),
};

/** The names of all its settings; those that end in a chain id without it. */
export const INDEXER_VARIABLES = [...Object.keys(general.shape), ...Object.keys(PER_CHAIN)];

type PerChain = {
  [Prefix in keyof typeof PER_CHAIN]: Map<number, z.output<(typeof PER_CHAIN)[Prefix]>>;
};

/** Reads an indexer's settings from the environment. Throws a SettingsError that names every problem. */
export const parseIndexerSettings = (environment: NodeJS.ProcessEnv): IndexerSettings => {
  const variables = setVariables(environment);
  const problems: string[] = [];

  const perChain: PerChain = {
    PONDER_RPC_URL_: new Map(),
    PONDER_WS_URL_: new Map(),
    START_BLOCK_: new Map(),
  };
  const parsePerChain = <Prefix extends keyof PerChain>(prefix: Prefix) => {
    const values: Map<number, unknown> = perChain[prefix];
    for (const [name, value] of Object.entries(variables)) {
      if (!name.startsWith(prefix)) continue;
      const id = name.slice(prefix.length);
      const network = /^[1-9]\d*$/.test(id) ? networks.get(Number(id)) : undefined;
      if (!network) {
        problems.push(`${name}: there is no registry on a chain "${id}"; known chain ids are ${knownChains}.`);
        continue;
      }
      const parsed = PER_CHAIN[prefix].safeParse(value);
      if (parsed.success) values.set(network.chainId, parsed.data);
      else problems.push(`${name} ${parsed.error.issues[0]?.message}.`);
    }
  };
  for (const prefix of Object.keys(PER_CHAIN) as (keyof PerChain)[]) parsePerChain(prefix);

  const parsed = general.safeParse(variables);
  if (!parsed.success) problems.push(...problemsOf(parsed.error));

  const hasRpc = (chainId: number) => variables[`PONDER_RPC_URL_${chainId}`] !== undefined;
  const chosen = general.shape.CHAINS.safeParse(variables.CHAINS).data;
  for (const chainId of chosen ?? []) {
    if (!networks.has(chainId)) {
      problems.push(`CHAINS: there is no registry on a chain "${chainId}"; known chain ids are ${knownChains}.`);
    } else if (!hasRpc(chainId)) {
      problems.push(`CHAINS names chain ${chainId}, which has no RPC: set PONDER_RPC_URL_${chainId}.`);
    }
  }
  for (const prefix of ["PONDER_WS_URL_", "START_BLOCK_"] as const) {
    for (const chainId of perChain[prefix].keys()) {
      if (!hasRpc(chainId)) {
        problems.push(`${prefix}${chainId} is set, but chain ${chainId} has no RPC: set PONDER_RPC_URL_${chainId}.`);
      }
    }
  }
  if (!Object.keys(variables).some((name) => name.startsWith("PONDER_RPC_URL_"))) {
    problems.push(
      "No chain to index: set PONDER_RPC_URL_<chainId>, for example PONDER_RPC_URL_1=https://… for Ethereum.",
    );
  }

  if (!parsed.success || problems.length > 0) throw new SettingsError(problems);
  const { data } = parsed;

  return {
    shard: data.SHARD,
    chains: [...networks.values()]
      .filter(({ chainId }) => chosen?.includes(chainId) ?? true)
      .flatMap((network) => {
        const rpcUrls = perChain.PONDER_RPC_URL_.get(network.chainId);
        if (!rpcUrls) return [];
        return {
          network,
          rpcUrls,
          wsUrl: perChain.PONDER_WS_URL_.get(network.chainId) ?? null,
          startBlock: perChain.START_BLOCK_.get(network.chainId) ?? null,
        };
      })
      .sort((a, b) => a.network.chainId - b.network.chainId),
    pollingIntervalMs: data.POLLING_INTERVAL_MS,
    host: data.INDEXER_HOST,
    port: data.INDEXER_PORT,
    logLevel: data.LOG_LEVEL,
  };
};

/** For whoever names another one. */
export const knownChains = [...networks.keys()].sort((a, b) => a - b).join(", ");
