import { BlockList, isIPv4 } from "node:net";
import { z } from "zod";
import { rpcUrlList } from "../indexer/settings.ts";
import {
  databaseUrl,
  dropEmptyVariables,
  integer,
  isUrl,
  listProblems,
  logLevel,
  port,
  SettingsError,
  type Variables,
} from "../process/settings.ts";
import { networks } from "../registry/networks.ts";
import { indexSchemas } from "../registry/shard-name.ts";
import { canNameSite } from "./developers/sign-in-message.ts";
import { parseNetworks, type TrustedProxies } from "./limits/client-address.ts";

const BAD_PROXIES =
  "must be off, or the networks of your proxies, separated by commas, such as 10.0.0.0/8,fd00::/8; " +
  "a network that includes everyone would let every client choose its address";

const BAD_ALLOWED_NETWORKS =
  "must be networks that webhooks may reach although they are not public, separated by commas, such as 127.0.0.0/8; " +
  "none may be larger than a /8, or an IPv6 /7";

/** Accepts what the store's client can parse: a host, a numeric database, and decodable credentials. */
const isStoreUrl = (value: string): boolean => {
  if (!isUrl(["redis:", "rediss:"])(value)) return false;
  const { hostname, pathname, username, password } = new URL(value);
  return hostname !== "" && /^(\/\d*)?$/.test(pathname) && isDecodable(username) && isDecodable(password);
};

const isDecodable = (text: string): boolean => {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
};

/** Accepts an origin that a sign-in message can name. */
const isPublicUrl = (value: string): boolean => {
  if (!isUrl(["http:", "https:"])(value)) return false;
  const { origin, href } = new URL(value);
  return href === `${origin}/` && canNameSite({ origin });
};

const PRIVATE_NETWORKS = new BlockList();
for (const [network, prefix] of [
  ["127.0.0.0", 8],
  ["10.0.0.0", 8],
  ["172.16.0.0", 12],
  ["192.168.0.0", 16],
] as const) {
  PRIVATE_NETWORKS.addSubnet(network, prefix, "ipv4");
}

/** Accepts https, and http for hosts that only a machine itself or a private network has. */
const isSafeUrl = (value: string): boolean => {
  const { protocol, hostname } = new URL(value);
  if (protocol === "https:") return true;
  return isIPv4(hostname) ? PRIVATE_NETWORKS.check(hostname) : /(^|\.)(localhost|local|internal)$/.test(hostname);
};

const QUIET_NETWORKS = [...networks.values()].filter(({ quiet }) => quiet).map(({ chainId }) => chainId);

const isHttpUrl = isUrl(["http:", "https:"]);
const SIGN_IN_RPC_PREFIX = "SIGN_IN_RPC_URL_";
const PROOF_RPC_PREFIX = "PROOF_RPC_URL_";
const httpRpcUrlList = rpcUrlList.refine((urls) => urls.every(isHttpUrl), {
  error: "must be one or more URLs separated by commas, each http or https",
});

/**
 * Reads the RPC URLs for sign-ins: their own ones, else the indexer's; and for proofs, their own ones only. A response
 * over a WebSocket cannot be bounded, so those are left out.
 */
const parseRpcUrls = (variables: Variables) => {
  const signInRpcUrls = new Map<number, readonly string[]>();
  const proofRpcUrls = new Map<number, readonly string[]>();
  const problems: string[] = [];
  const read = (prefix: string, schema: typeof rpcUrlList, rpcUrls = signInRpcUrls) => {
    for (const [name, value] of Object.entries(variables)) {
      if (!name.startsWith(prefix)) continue;
      const id = name.slice(prefix.length);
      const parsed = schema.safeParse(value);
      if (!/^[1-9]\d*$/.test(id)) {
        // The indexer reports malformed names of its own variables.
        if (schema === httpRpcUrlList) problems.push(`${name} must end in a chain id.`);
      } else if (!parsed.success) problems.push(`${name} ${parsed.error.issues[0]?.message}.`);
      else if (parsed.data.some(isHttpUrl)) rpcUrls.set(Number(id), parsed.data.filter(isHttpUrl));
    }
  };
  read("PONDER_RPC_URL_", rpcUrlList);
  read(SIGN_IN_RPC_PREFIX, httpRpcUrlList);
  read(PROOF_RPC_PREFIX, httpRpcUrlList, proofRpcUrls);
  return { signInRpcUrls, proofRpcUrls, problems };
};

const schema = z.object({
  DATABASE_READ_URL: databaseUrl.optional(),
  INDEX_SCHEMAS: indexSchemas,
  HOST: z.string().default("0.0.0.0"),
  PORT: port.default(8080),
  MAX_INDEX_LAG_SECONDS: integer(1, 1_000_000_000).default(600),
  QUIET_CHAINS: z
    .string()
    .regex(/^\d+(\s*,\s*\d+)*$/, { error: "must be chain ids separated by commas, such as 1996,2911", abort: true })
    .transform((value) => value.split(",").map(Number))
    .refine((chainIds) => chainIds.every((chainId) => networks.has(chainId)), {
      error: "names a chain without a registry",
    })
    .default([]),
  RATE_LIMIT_REQUESTS: integer(1, 1_000_000).default(25),
  RATE_LIMIT_WINDOW_SECONDS: integer(1, 3600).default(10),
  RATE_LIMIT_STORE: z
    .string()
    .refine((value) => value === "memory" || isStoreUrl(value), {
      error: "must be memory, or a redis:// or rediss:// URL, such as redis://user:password@host:6379/0",
    })
    .default("memory"),
  TRUST_PROXY: z
    .string()
    .default("off")
    .transform((value, context): TrustedProxies | null => {
      const proxies = value === "off" ? null : parseNetworks(value);
      if (proxies === null && value !== "off") context.addIssue({ code: "custom", message: BAD_PROXIES });
      return proxies;
    }),
  PUBLIC_URL: z
    .string()
    .refine(isPublicUrl, {
      error: "must be the address of this service without a path, such as https://api.example",
      abort: true,
    })
    .refine(isSafeUrl, {
      error:
        "must begin with https:// for a public host: over http, anyone on the way could read the session of a user and new keys, and use them",
    })
    .transform((value) => new URL(value).origin)
    .optional(),
  DEVELOPER_PORTAL: z.enum(["on", "off"], { error: "must be on or off" }).default("on"),
  DEVELOPER_KEYS_PER_WALLET: integer(1, 1000).default(5),
  WEBHOOKS: z.enum(["on", "off"], { error: "must be on or off" }).default("off"),
  WEBHOOK_ALLOWED_NETWORKS: z
    .string()
    .optional()
    .transform((value, context) => {
      const networks = value === undefined ? null : parseNetworks(value);
      if (networks === null && value !== undefined) context.addIssue({ code: "custom", message: BAD_ALLOWED_NETWORKS });
      return networks;
    }),
  METRICS_HOST: z.string().default("127.0.0.1"),
  METRICS_PORT: port.default(9464),
  LOG_LEVEL: logLevel,
});

/** Names of all settings of the API; per-chain names without the chain id. */
export const API_VARIABLES = [...Object.keys(schema.shape), SIGN_IN_RPC_PREFIX, PROOF_RPC_PREFIX];

export type ApiSettings = ReturnType<typeof parseApiSettings>;

/** Parses the API's settings. Throws a SettingsError that names every problem. */
export const parseApiSettings = (environment: NodeJS.ProcessEnv) => {
  const variables = dropEmptyVariables(environment);
  const parsed = schema.safeParse(variables);
  const hasReplicaOnly = variables.DATABASE_READ_URL !== undefined && variables.DATABASE_URL === undefined;
  const { problems: rpcProblems, ...rpcUrls } = parseRpcUrls(variables);
  const problems = [
    ...(parsed.success ? [] : listProblems(parsed.error)),
    ...(hasReplicaOnly ? ["DATABASE_READ_URL needs DATABASE_URL, the primary of this replica."] : []),
    ...rpcProblems,
  ];
  if (!parsed.success || problems.length > 0) throw new SettingsError(problems);
  const { data } = parsed;
  return {
    /** URL of a replica that answers come from; null: the database itself. */
    databaseReadUrl: data.DATABASE_READ_URL ?? null,
    /** Names of the shards, which are the schemas of their views. */
    shards: data.INDEX_SCHEMAS,
    host: data.HOST,
    port: data.PORT,
    /** Maximum lag of a chain's index. Requests about a chain with a greater lag are a 503. */
    maxIndexLagSeconds: data.MAX_INDEX_LAG_SECONDS,
    /** Chains that make no empty blocks. Their newest block may be old. */
    quietChains: new Set([...QUIET_NETWORKS, ...data.QUIET_CHAINS]),
    /** Rate limit of a client without an API key. */
    limit: { requests: data.RATE_LIMIT_REQUESTS, windowMs: data.RATE_LIMIT_WINDOW_SECONDS * 1000 },
    /** URL of the store that API processes share for rate limits; null: each process has its own limit. */
    limitStoreUrl: data.RATE_LIMIT_STORE === "memory" ? null : data.RATE_LIMIT_STORE,
    trustedProxies: data.TRUST_PROXY,
    /** Public origin of the service; null: people can sign in from its own machine only. */
    publicUrl: data.PUBLIC_URL ?? null,
    hasDeveloperPage: data.DEVELOPER_PORTAL === "on",
    /** Maximum API keys of a wallet. */
    keysPerWallet: data.DEVELOPER_KEYS_PER_WALLET,
    /** Null: there are no webhooks. `allowedNetworks`: those that they may reach, beside all that is public. */
    webhooks: data.WEBHOOKS === "on" ? { allowedNetworks: data.WEBHOOK_ALLOWED_NETWORKS } : null,
    /** RPC URLs by chain, all over HTTP. Contract wallets of these chains can sign in. */
    signInRpcUrls: rpcUrls.signInRpcUrls,
    /** The same for answers with proofs. */
    proofRpcUrls: rpcUrls.proofRpcUrls,
    metricsHost: data.METRICS_HOST,
    metricsPort: data.METRICS_PORT,
    logLevel: data.LOG_LEVEL,
  };
};

export const apiPort = ({ host, port }: ApiSettings) => ({ host, port, use: "the API", setting: "PORT" });
