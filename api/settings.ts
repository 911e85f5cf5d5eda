import { z } from "zod";
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
} from "../stack/settings.ts";
import { parseProxies, type TrustedProxies } from "./limits/client-address.ts";
import type { Limit } from "./limits/sliding-window.ts";

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
  const problems = [
    ...(parsed.success ? [] : problemsOf(parsed.error)),
    ...(isOrphan ? ["DATABASE_READ_URL needs DATABASE_URL, the database that it is a replica of."] : []),
  ];
  if (!parsed.success || isOrphan) throw new SettingsError(problems);
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
    metricsHost: data.METRICS_HOST,
    metricsPort: data.METRICS_PORT,
    logLevel: data.LOG_LEVEL,
  };
};

/** The port that the API listens on. */
export const apiPort = ({ host, port }: ApiSettings) => ({ host, port, use: "the API", setting: "PORT" });
