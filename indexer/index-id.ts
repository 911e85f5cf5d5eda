import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { ChainPlan } from "./plan.ts";

const ROOT = join(import.meta.dirname, "..");

/** Lists the files that determine the rows of an index. Ponder hashes most of them too, and rejects a schema of others. */
const listIndexingFiles = (): string[] => [
  "ponder.config.ts",
  "ponder.schema.ts",
  "registry/abi.ts",
  "registry/delegation.ts",
  "registry/state-at.ts",
  ...readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" })
    .filter((path) => /\.m?[jt]s$/.test(path) && !path.startsWith("api/"))
    .map((path) => `src/${path}`)
    .sort(),
];

const readPonderVersion = (): string =>
  JSON.parse(readFileSync(join(ROOT, "node_modules/ponder/package.json"), "utf8")).version;

/**
 * Hashes everything that changes an index: code, schema, chains, addresses, start blocks. The same index gets the same id
 * and resumes; another index gets a schema of its own beside it.
 */
export const computeIndexId = (chains: readonly ChainPlan[]): string => {
  const hash = createHash("sha256").update(readPonderVersion());
  for (const file of listIndexingFiles()) {
    hash.update(`\0${file}\0`).update(readFileSync(join(ROOT, file)));
  }
  hash.update(JSON.stringify(chains.map(({ chainId, name, v1, v2 }) => ({ chainId, name, v1, v2 }))));
  return hash.digest("hex").slice(0, 10);
};
