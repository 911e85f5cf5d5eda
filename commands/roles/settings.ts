import { z } from "zod";
import { dropEmptyVariables, listProblems, SettingsError } from "../../process/settings.ts";
import { indexSchemas } from "../../registry/shard-name.ts";

export type Role = { name: string; password: string };

export type RolesSettings = {
  /** Shards whose views the API reads. */
  shards: readonly string[];
  /** Writes the index. */
  indexer: Role;
  /** Answers from it. */
  api: Role;
  /** Reads the schema "analytics", and nothing else. */
  analyst: Role;
};

/** One analyst's login. */
export type AnalystSettings = {
  name: string;
  /** The indexer's role, which ends its long transactions. */
  indexer: string;
};

const roleName = z
  .string()
  .regex(/^[a-z][a-z0-9_]{0,62}$/, {
    error: "must be 1 to 63 lower-case letters, digits or _, and start with a letter",
  })
  .refine((name) => !/^(pg_|public$|postgres$|none$)/.test(name), { error: "is a role with another use" });

/** ASCII only: every implementation of SCRAM hashes it the same way. */
const password = z
  .string({ error: "is not set" })
  .regex(/^[\x21-\x7e]{12,}$/, { error: "must be 12 or more letters, digits or signs of ASCII, without spaces" });

const roleNames = {
  INDEXER_ROLE: roleName.default("delegation_indexer"),
  API_ROLE: roleName.default("delegation_api"),
  ANALYST_ROLE: roleName.default("delegation_analyst"),
};

const schema = z
  .object({
    INDEX_SCHEMAS: indexSchemas,
    ...roleNames,
    INDEXER_PASSWORD: password,
    API_PASSWORD: password,
    ANALYST_PASSWORD: password,
  })
  .refine(({ INDEXER_ROLE, API_ROLE, ANALYST_ROLE }) => new Set([INDEXER_ROLE, API_ROLE, ANALYST_ROLE]).size === 3, {
    path: ["INDEXER_ROLE, API_ROLE, ANALYST_ROLE"],
    error: "must be three roles",
    // Run this check even if others fail: all problems are reported at once.
    when: () => true,
  });

/** How the passwords of docker-compose.yml without a .env start. They are public, and so is the superuser's. */
const SANDBOX_PREFIX = "sandbox-";
const SANDBOX_SUPERUSER_PASSWORD = "sandbox";

const listPublicPasswords = ({ DATABASE_URL = "", ...variables }: NodeJS.ProcessEnv): string[] => {
  if (URL.canParse(DATABASE_URL) && new URL(DATABASE_URL).password === SANDBOX_SUPERUSER_PASSWORD) return [];
  return ["INDEXER_PASSWORD", "API_PASSWORD", "ANALYST_PASSWORD"]
    .filter((name) => variables[name]?.startsWith(SANDBOX_PREFIX))
    .map((name) => `${name} is the sandbox's, which is public: set it in .env.`);
};

/** Names of all settings. */
export const ROLES_VARIABLES = Object.keys(schema.shape);

/** Reads the settings from the environment. Throws a SettingsError that names every problem, and no password. */
export const parseRolesSettings = (environment: NodeJS.ProcessEnv): RolesSettings => {
  const parsed = schema.safeParse(dropEmptyVariables(environment));
  const problems = [...(parsed.success ? [] : listProblems(parsed.error)), ...listPublicPasswords(environment)];
  if (!parsed.success || problems.length > 0) throw new SettingsError(problems);
  const { data } = parsed;
  return {
    shards: data.INDEX_SCHEMAS,
    indexer: { name: data.INDEXER_ROLE, password: data.INDEXER_PASSWORD },
    api: { name: data.API_ROLE, password: data.API_PASSWORD },
    analyst: { name: data.ANALYST_ROLE, password: data.ANALYST_PASSWORD },
  };
};

const analystSchema = z
  .object({ ...roleNames, NAME: roleName })
  .refine(({ NAME, ...others }) => !Object.values(others).includes(NAME), {
    path: ["NAME"],
    error: "is a role of the service",
  });

/** Reads the settings for one analyst's login. Throws a SettingsError that names every problem. */
export const parseAnalystSettings = (environment: NodeJS.ProcessEnv, name: string): AnalystSettings => {
  const parsed = analystSchema.safeParse({ ...dropEmptyVariables(environment), NAME: name });
  if (!parsed.success) throw new SettingsError(listProblems(parsed.error));
  return { name, indexer: parsed.data.INDEXER_ROLE };
};
