import { z } from "zod";
import { rpcUrlList } from "../indexer/settings.ts";
import { indexSchemas } from "../registry/shard-name.ts";
import {
  databaseUrl,
  integer,
  isUrl,
  logLevel,
  port,
  problemsOf,
  SettingsError,
  setVariables,
  type Variables,
} from "../stack/settings.ts";
import { parseProxies, type TrustedProxies } from "./limits/client-address.ts";
import type { Limit } from "./limits/sliding-window.ts";
import { canNameSite } from "./portal/sign-in-message.ts";

export type ApiSettings = {
  /** A replica of the database, to answer from; null: the database itself. */
  databaseReadUrl: string | null;
  /** The shards to answer from: each is the name of its views schema. */
  shards: readonly string[];
  host: string;
  port: number;
  /** A chain whose newest indexed block is older than this is not answered for. */
  maxIndexLagSeconds: number;
  /** How often a client may ask without a key. */
  limit: Limit;
  /** Where all API processes count together; null: each counts by itself. */
  limitStoreUrl: string | null;
  trustedProxies: TrustedProxies | null;
  /** The origin that people reach the service at; null: only its own machine is known. */
  publicUrl: string | null;
  /** Whether there is a page where people make keys, and how many each wallet may have. */
  hasDeveloperPortal: boolean;
  keysPerWallet: number;
  /** RPCs by chain: contract wallets of these chains can sign in. */
  rpcUrls: ReadonlyMap<number, readonly string[]>;
  metricsHost: string;
  metricsPort: number;
  logLevel: string;
};

const BAD_PROXIES =
  "must be off, or the networks of your proxies with commas, such as 10.0.0.0/8,fd00::/8; " +
  "one that takes in everybody would let everybody choose an address";

/** As the store's client reads it: a host, a number for a database, and what can be decoded. */
const isStoreUrl = (value: string): boolean => {
  if (!isUrl(["redis:", "rediss:"])(value)) return false;
  const { hostname, pathname, username, password } = new URL(value);
  return hostname !== "" && /^(\/\d*)?$/.test(pathname) && canBeDecoded(username) && canBeDecoded(password);
};

const canBeDecoded = (text: string): boolean => {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
};

/** An origin, and one that a wallet can be asked to sign in to. */
const isPublicUrl = (value: string): boolean => {
  if (!isUrl(["http:", "https:"])(value)) return false;
  const { origin, href } = new URL(value);
  return href === `${origin}/` && canNameSite({ origin });
};

const RPC_PREFIX = "PONDER_RPC_URL_";

/** The indexer's own variables. What is wrong with their names, the indexer says. */
const parseRpcUrls = (variables: Variables) => {
  const rpcUrls = new Map<number, readonly string[]>();
  const problems: string[] = [];
  for (const [name, value] of Object.entries(variables)) {
    const id = name.startsWith(RPC_PREFIX) ? name.slice(RPC_PREFIX.length) : "";
    if (!/^[1-9]\d*$/.test(id)) continue;
    const parsed = rpcUrlList.safeParse(value);
    if (parsed.success) rpcUrls.set(Number(id), parsed.data);
    else problems.push(`${name} ${parsed.error.issues[0]?.message}.`);
  }
  return { rpcUrls, problems };
};

const schema = z.object({
  DATABASE_READ_URL: databaseUrl.optional(),
  INDEX_SCHEMAS: indexSchemas,
  HOST: z.string().default("0.0.0.0"),
  PORT: port.default(8080),
  MAX_INDEX_LAG_SECONDS: integer(1, 1_000_000_000).default(600),
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
      const proxies = value === "off" ? null : parseProxies(value);
      if (proxies === null && value !== "off") context.addIssue({ code: "custom", message: BAD_PROXIES });
      return proxies;
    }),
  PUBLIC_URL: z
    .string()
    .refine(isPublicUrl, {
      error: "must be the address that people reach this service at, without a path, such as https://api.example",
    })
    .transform((value) => new URL(value).origin)
    .optional(),
  DEVELOPER_PORTAL: z.enum(["on", "off"], { error: "must be on or off" }).default("on"),
  DEVELOPER_KEYS_PER_WALLET: integer(1, 1000).default(5),
  METRICS_HOST: z.string().default("127.0.0.1"),
  METRICS_PORT: port.default(9464),
  LOG_LEVEL: logLevel,
});

/** The names of all its settings. */
export const API_VARIABLES = Object.keys(schema.shape);

/** Reads the API's settings from the environment. Throws a SettingsError that names every problem. */
export const parseApiSettings = (environment: NodeJS.ProcessEnv): ApiSettings => {
  const variables = setVariables(environment);
  const parsed = schema.safeParse(variables);
  const isOrphan = variables.DATABASE_READ_URL !== undefined && variables.DATABASE_URL === undefined;
  const { rpcUrls, problems: rpcProblems } = parseRpcUrls(variables);
  const problems = [
    ...(parsed.success ? [] : problemsOf(parsed.error)),
    ...(isOrphan ? ["DATABASE_READ_URL needs DATABASE_URL, the database that it is a replica of."] : []),
    ...rpcProblems,
  ];
  if (!parsed.success || problems.length > 0) throw new SettingsError(problems);
  const { data } = parsed;
  return {
    databaseReadUrl: data.DATABASE_READ_URL ?? null,
    shards: data.INDEX_SCHEMAS,
    host: data.HOST,
    port: data.PORT,
    maxIndexLagSeconds: data.MAX_INDEX_LAG_SECONDS,
    limit: { requests: data.RATE_LIMIT_REQUESTS, windowMs: data.RATE_LIMIT_WINDOW_SECONDS * 1000 },
    limitStoreUrl: data.RATE_LIMIT_STORE === "memory" ? null : data.RATE_LIMIT_STORE,
    trustedProxies: data.TRUST_PROXY,
    publicUrl: data.PUBLIC_URL ?? null,
    hasDeveloperPortal: data.DEVELOPER_PORTAL === "on",
    keysPerWallet: data.DEVELOPER_KEYS_PER_WALLET,
    rpcUrls,
    metricsHost: data.METRICS_HOST,
    metricsPort: data.METRICS_PORT,
    logLevel: data.LOG_LEVEL,
  };
};

/** The port that the API listens on. */
export const apiPort = ({ host, port }: ApiSettings) => ({ host, port, use: "the API", setting: "PORT" });
