import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { ChainPlan } from "./plan.ts";

const ROOT = join(import.meta.dirname, "..");

/** The files that decide what an index holds. Ponder compares most of them too, and refuses a schema of other ones. */
const indexingFiles = (): string[] => [
  "ponder.config.ts",
  "ponder.schema.ts",
  "registry/abi.ts",
  "registry/delegation.ts",
  ...readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" })
    .filter((path) => /\.m?[jt]s$/.test(path) && !path.startsWith("api/"))
    .map((path) => `src/${path}`)
    .sort(),
];

const ponderVersion = (): string =>
  JSON.parse(readFileSync(join(ROOT, "node_modules/ponder/package.json"), "utf8")).version;

/**
 * Names an index by what would change it: code, schema, chains, addresses, start blocks. The same
 * index gets the same name and resumes; another one gets a schema of its own beside it.
 */
export const indexId = (chains: readonly ChainPlan[]): string => {
  const hash = createHash("sha256").update(ponderVersion());
  for (const file of indexingFiles()) {
    hash.update(`\0${file}\0`).update(readFileSync(join(ROOT, file)));
  }
  hash.update(JSON.stringify(chains.map(({ chainId, name, v1, v2 }) => ({ chainId, name, v1, v2 }))));
  return hash.digest("hex").slice(0, 10);
};
