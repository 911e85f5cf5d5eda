import { parseArgs } from "node:util";
import { knownChains, rpcUrlList } from "../../indexer/settings.ts";
import { dropEmptyVariables, parseOptionalDatabaseUrl, SettingsError } from "../../process/settings.ts";
import { type Network, networks } from "../../registry/networks.ts";

export type AuditSettings = {
  network: Network;
  rpcUrls: string[];
  /** null if it is not set. */
  databaseUrl: string | null;
  /** Number of wallets to compare; null: all. */
  sample: number | null;
  /** Block to compare at; null: the newest indexed one. */
  block: bigint | null;
};

const DEFAULT_SAMPLE = 1000;

const USAGE = `npm run audit -- --chain <chainId> [--sample <wallets> | --all] [--block <number>]

  --chain    the chain to audit
  --sample   number of wallets to compare, drawn from the index and from the chain's events; by default ${DEFAULT_SAMPLE}
  --all      compares every wallet
  --block    compares at a past block, by the log of changes; by default at the newest indexed block

The chain is read from PONDER_RPC_URL_<chainId>. The index is in DATABASE_URL, or in the database of a
running "npm start" or "npm run dev". Exit codes: 0 they agree, 1 they differ, 2 the audit failed.`;

const OPTIONS = {
  chain: { type: "string" },
  sample: { type: "string" },
  all: { type: "boolean", default: false },
  block: { type: "string" },
} as const;

/** Parses arguments and environment. Throws an error with every problem, or with the usage. */
export const parseAuditSettings = (args: string[], environment: NodeJS.ProcessEnv): AuditSettings => {
  const options = readOptions(args);
  const problems: string[] = [];

  const network = /^\d+$/.test(options.chain) ? networks.get(Number(options.chain)) : undefined;
  if (!network) problems.push(`--chain: there is no registry on it; known chain ids are ${knownChains}.`);
  const { sample = String(DEFAULT_SAMPLE), all, block } = options;
  if (!/^[1-9]\d{0,8}$/.test(sample)) problems.push("--sample must be a number of wallets.");
  if (all && options.sample !== undefined) problems.push("--sample and --all cannot be combined.");
  if (block !== undefined && !/^\d{1,15}$/.test(block)) problems.push("--block must be a block number.");

  const name = `PONDER_RPC_URL_${network?.chainId}`;
  const rpcUrls = rpcUrlList.safeParse(dropEmptyVariables(environment)[name]);
  if (network && !dropEmptyVariables(environment)[name]) problems.push(`${name} is not set: it names the chain's RPC.`);
  else if (network && !rpcUrls.success) problems.push(`${name} ${rpcUrls.error.issues[0]?.message}.`);

  let databaseUrl: string | null = null;
  try {
    databaseUrl = parseOptionalDatabaseUrl(environment);
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    problems.push(...error.problems);
  }

  if (!network || !rpcUrls.success || problems.length > 0) throw new SettingsError(problems);
  return {
    network,
    rpcUrls: rpcUrls.data,
    databaseUrl,
    sample: all ? null : Number(sample),
    block: block === undefined ? null : BigInt(block),
  };
};

const readOptions = (args: string[]) => {
  try {
    const { chain, ...options } = parseArgs({ args, options: OPTIONS }).values;
    if (chain !== undefined) return { chain, ...options };
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
  }
  throw new Error(USAGE);
};
