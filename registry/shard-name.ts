import { z } from "zod";

/** Schemas with another use. */
const RESERVED_SCHEMAS = ["public", "ponder_sync", "information_schema", "service", "analytics", "indexer"];

/** A shard's name, which is also the name of the schema with its views. */
export const shardName = z
  .string()
  .regex(/^[a-z][a-z0-9_]{0,29}$/, {
    error: "must be 1 to 30 lower-case letters, digits or _, and start with a letter",
  })
  .refine((name) => !RESERVED_SCHEMAS.includes(name) && !/^pg_|_[0-9a-f]{10}$/.test(name), {
    error: "is the name of a schema with another use",
  });

/** INDEX_SCHEMAS: the names of shards, separated by commas. */
export const indexSchemas = z
  .string()
  .default("registry")
  .transform((value) => [...new Set(value.split(",").map((name) => name.trim()))])
  .pipe(z.array(shardName));
