import { z } from "zod";
import { indexSchemas } from "../registry/shard-name.ts";
import { problemsOf, SettingsError, setVariables } from "../stack/settings.ts";

export type Role = { name: string; password: string };

export type RolesSettings = {
  /** The shards whose views the API reads. */
  shards: readonly string[];
  /** Makes the index. */
  indexer: Role;
  /** Answers from it. */
  api: Role;
  /** Reads the schema "analytics", and nothing else. */
  analyst: Role;
};

const roleName = z
  .string()
  .regex(/^[a-z][a-z0-9_]{0,62}$/, {
    error: "must be 1 to 63 lower-case letters, digits or _, and start with a letter",
  })
  .refine((name) => !/^(pg_|public$|postgres$|none$)/.test(name), { error: "is a role with another use" });

/** In ASCII, which reads the same for everybody who hashes it. */
const password = z
  .string({ error: "is not set" })
  .regex(/^[\x21-\x7e]{12,}$/, { error: "must be 12 or more letters, digits or signs of ASCII, without spaces" });

const schema = z
  .object({
    INDEX_SCHEMAS: indexSchemas,
    INDEXER_ROLE: roleName.default("delegation_indexer"),
    INDEXER_PASSWORD: password,
    API_ROLE: roleName.default("delegation_api"),
    API_PASSWORD: password,
    ANALYST_ROLE: roleName.default("delegation_analyst"),
    ANALYST_PASSWORD: password,
  })
  .refine(({ INDEXER_ROLE, API_ROLE, ANALYST_ROLE }) => new Set([INDEXER_ROLE, API_ROLE, ANALYST_ROLE]).size === 3, {
    path: ["INDEXER_ROLE, API_ROLE, ANALYST_ROLE"],
    error: "must be three roles",
    // Also where something else is wrong: all problems are told at once.
    when: () => true,
  });

/** The names of all its settings. */
export const ROLES_VARIABLES = Object.keys(schema.shape);

/** Reads the settings from the environment. Throws a SettingsError that names every problem, and no password. */
export const parseRolesSettings = (environment: NodeJS.ProcessEnv): RolesSettings => {
  const parsed = schema.safeParse(setVariables(environment));
  if (!parsed.success) throw new SettingsError(problemsOf(parsed.error));
  const { data } = parsed;
  return {
    shards: data.INDEX_SCHEMAS,
    indexer: { name: data.INDEXER_ROLE, password: data.INDEXER_PASSWORD },
    api: { name: data.API_ROLE, password: data.API_PASSWORD },
    analyst: { name: data.ANALYST_ROLE, password: data.ANALYST_PASSWORD },
  };
};
