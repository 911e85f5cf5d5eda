import { type Check, checksOf } from "../../registry/checks.ts";

export type RegistryName = Check["version"];

/** Finds a check by its name. Falls back to the first one, because the registries have different checks. */
export const chooseCheck = (registry: RegistryName, name: string | null): Check => {
  const [first, ...others] = checksOf(registry);
  if (!first) throw new Error(`The registry ${registry} has no checks.`);
  return others.find((check) => check.name === name) ?? first;
};

/** Names the subject of a check within a sentence. */
export const describeSubject = ({ name, takes }: Check, contract: string, tokenId: string): string => {
  if (takes.includes("tokenId")) return `token ${tokenId} of ${contract}`;
  if (!takes.includes("contract")) return "the whole wallet";
  return `${name === "contract" ? "the contract" : "token"} ${contract}`;
};

/** Names the scopes that satisfy a check, the narrowest first. */
export const describeScopes = ({ name }: Check): string => {
  if (name === "all") return "the whole wallet";
  return name === "contract" ? "this contract or the whole wallet" : "this token, its contract or the whole wallet";
};
