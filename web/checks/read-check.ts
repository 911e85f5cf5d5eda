import type { Check, Network } from "../../client/src/index.ts";
import { CHECK_NAMES, CHECKS, checksOf, findCheck, takes } from "../../registry/checks.ts";

/** What a check depends on of a network. */
export type KnownNetwork = Pick<Network, "chainId" | "name" | "registries" | "state">;

/** The columns that make a check. */
export const CHECK_COLUMNS = [
  "registry",
  "check",
  "to",
  "delegate",
  "from",
  "vault",
  "contract",
  "tokenId",
  "rights",
  "chainId",
] as const;

export type CheckColumn = (typeof CHECK_COLUMNS)[number];

/** The fields of a line, without empty ones. */
export type Cells = Partial<Record<CheckColumn, string>>;

type Registry = Check["registry"];

/**
 * Makes a check from the fields of a line. Its problem names every bad field, in the words of the API.
 * @param networks - null if they are not known: then the API tells which ones it lacks
 */
export const readCheck = (
  cells: Cells,
  networks: readonly KnownNetwork[] | null,
): { check: Check } | { problem: string } => {
  const { registry = "v2" } = cells;
  if (!isRegistry(registry)) return { problem: explainRegistry(cells.check) };
  const name = cells.check ?? chooseCheck(registry, cells);
  if (name === null) return { problem: "check is required with a tokenId on v2: erc721 or erc1155." };
  const known = findCheck(registry, name);
  if (!known) {
    const names = checksOf(registry).map(({ name }) => name);
    return { problem: `check must be one of ${names.join(", ")}, on ${registry}.` };
  }

  const contract = takes(known, "contract") ? (cells.contract ?? "") : undefined;
  const tokenId = takes(known, "tokenId") ? (cells.tokenId ?? "") : undefined;
  const rights = takes(known, "rights") ? cells.rights : undefined;
  const { chainId = "1" } = cells;
  const problems = [
    explainWallet("delegate", "to", cells),
    explainWallet("vault", "from", cells),
    contract !== undefined && explain("contract", contract, isAddress, ADDRESS),
    tokenId !== undefined && explain("tokenId", tokenId, isTokenId, TOKEN_ID),
    rights !== undefined && explain("rights", rights, isRights, RIGHTS),
    explain("chainId", chainId, isChainId, CHAIN_ID) ?? explainNetwork(networks, registry, Number(chainId)),
  ].filter((problem) => typeof problem === "string");
  if (problems.length > 0) return { problem: problems.join(" ") };
  return {
    check: {
      registry,
      check: known.name,
      delegate: cells.delegate ?? cells.to,
      vault: cells.vault ?? cells.from,
      ...(contract !== undefined && { contract }),
      ...(tokenId !== undefined && { tokenId: BigInt(tokenId) }),
      ...(rights !== undefined && { rights }),
      chainId: Number(chainId),
    } as Check,
  };
};

const ADDRESS = "must be 0x and 40 hex digits";
const TOKEN_ID = "must be a whole number from 0 to 2^256-1, in decimal or 0x hex digits";
const RIGHTS = "must be 0x and 64 hex digits, or a text of at most 31 bytes";
const CHAIN_ID = "must be a chain id in decimal digits";

const isRegistry = (text: string): text is Registry => text === "v1" || text === "v2";
const isAddress = (text: string) => /^0x[0-9a-f]{40}$/i.test(text);
const isTokenId = (text: string) => /^(\d{1,78}|0x[0-9a-f]{1,64})$/i.test(text) && BigInt(text) < 2n ** 256n;
const isRights = (text: string) =>
  /^0x/i.test(text) ? /^0x([0-9a-f]{64})?$/i.test(text) : new TextEncoder().encode(text).length <= 31;
const isChainId = (text: string) => /^\d{1,15}$/.test(text);

/** On v2, a token id alone does not tell the kind of token. */
const chooseCheck = (registry: Registry, { contract, tokenId }: Cells): string | null => {
  if (tokenId !== undefined) return registry === "v1" ? "token" : null;
  return contract === undefined ? "all" : "contract";
};

const explainRegistry = (check: string | undefined): string => {
  const isKnown = check === undefined || CHECKS.some(({ name }) => name === check);
  return `registry must be v1 or v2.${isKnown ? "" : ` check must be one of ${CHECK_NAMES.join(", ")}.`}`;
};

const explain = (name: string, text: string, isValid: (text: string) => boolean, rule: string): string | null => {
  if (text === "") return `${name} is required.`;
  return isValid(text) ? null : `${name} ${rule}.`;
};

const explainWallet = (name: "delegate" | "vault", synonym: "to" | "from", cells: Cells): string | null => {
  const { [name]: named, [synonym]: renamed } = cells;
  if (named === undefined && renamed === undefined) return `${name} is required (or its other name, ${synonym}).`;
  const usedName = named === undefined ? synonym : name;
  const texts = [named, renamed].filter((text) => text !== undefined);
  if (!texts.every(isAddress)) return `${usedName} ${ADDRESS}.`;
  const addresses = new Set(texts.map((text) => text.toLowerCase()));
  return addresses.size === 1 ? null : `${name} is given with different values (also as ${synonym}).`;
};

const explainNetwork = (
  networks: readonly KnownNetwork[] | null,
  registry: Registry,
  chainId: number,
): string | null => {
  const indexed = networks?.filter(({ state }) => state !== "not-indexed");
  const network = indexed?.find((network) => network.chainId === chainId);
  if (!indexed || network?.registries[registry]) return null;
  const others = indexed
    .filter(({ registries }) => registries[registry])
    .sort((a, b) => a.chainId - b.chainId)
    .map(({ chainId, name }) => `${chainId} (${name})`);
  const names = others.join(", ") || "none yet";
  return network
    ? `chainId has no ${registry} registry on ${network.name}; ${registry} is indexed here on ${names}.`
    : `chainId names a network that is not indexed here; indexed are ${names}.`;
};
