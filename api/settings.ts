import { z } from "zod";
import { shardName } from "../registry/shard-name.ts";
import { integer, logLevel, port, problemsOf, SettingsError, setVariables } from "../stack/settings.ts";

export type ApiSettings = {
  /** The shards to answer from: each is the name of its views schema. */
  shards: readonly string[];
  host: string;
  port: number;
  /** A chain whose newest indexed block is older than this is not answered for. */
  maxIndexLagSeconds: number;
  logLevel: string;
};

const schema = z.object({
  INDEX_SCHEMAS: z
    .string()
    .default("registry")
    .transform((value) => [...new Set(value.split(",").map((name) => name.trim()))])
    .pipe(z.array(shardName)),
  HOST: z.string().default("0.0.0.0"),
  PORT: port.default(8080),
  MAX_INDEX_LAG_SECONDS: integer(1, 1_000_000_000).default(600),
  LOG_LEVEL: logLevel,
});

/** Reads the API's settings from the environment. Throws a SettingsError that names every problem. */
export const parseApiSettings = (environment: NodeJS.ProcessEnv): ApiSettings => {
  const parsed = schema.safeParse(setVariables(environment));
  if (!parsed.success) throw new SettingsError(problemsOf(parsed.error));
  const { data } = parsed;
  return {
    shards: data.INDEX_SCHEMAS,
    host: data.HOST,
    port: data.PORT,
    maxIndexLagSeconds: data.MAX_INDEX_LAG_SECONDS,
    logLevel: data.LOG_LEVEL,
  };
};

/** The port that the API listens on. */
export const apiPort = ({ host, port }: ApiSettings) => ({ host, port, use: "the API", setting: "PORT" });
