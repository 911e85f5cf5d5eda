import type { PublicClient } from "viem";
import { FUNCTIONS } from "./checks.ts";
import type { ChainReader } from "./client.ts";
import { type Address, isBalance, type Question } from "./questions.ts";
import { RegistryError } from "./registry-error.ts";

type Addresses = { v1: Address; v2: Address };

const ADDRESSES: Addresses = {
  v1: "0x00000000000076A84feF008CDAbe6409d2FE638B",
  v2: "0x00000000000000447e69651d841bD8D104Bed493",
};

/** On networks with ZKsync's virtual machine, the v2 registry has another address. */
const ZKSYNC: Partial<Addresses> = { v2: "0x0000000059A24EB229eED07Ac44229DB56C5d797" };
const ZKSYNC_CHAINS = [324, 2741, 61166, 300, 11124];

type Client = Pick<PublicClient, "readContract">;

/**
 * Asks the registries themselves.
 * @param clients - viem's public clients, by chain id
 * @param addresses - of registries elsewhere, by chain id
 */
export const readChain = (
  clients: Readonly<Record<number, Client>>,
  addresses: Readonly<Record<number, Partial<Addresses>>> = {},
): ChainReader => ({
  canRead: ({ chainId }) => chainId in clients,
  read: async (question, block) => {
    const { chainId, registry } = question;
    const client = clients[chainId];
    if (!client) throw new RegistryError(`There is no client for chain ${chainId}.`, { isRetryable: false });
    const call = buildCall(question);
    const known = { ...ADDRESSES, ...(ZKSYNC_CHAINS.includes(chainId) && ZKSYNC), ...addresses[chainId] };
    try {
      const value = await client.readContract({
        address: known[registry],
        ...call,
        ...(typeof block === "bigint" ? { blockNumber: block } : { blockTag: block ?? "latest" }),
      });
      return value as boolean | bigint;
    } catch (error) {
      throw new RegistryError(`The ${registry} registry of chain ${chainId} does not answer: ${describe(error)}`, {
        cause: error,
      });
    }
  },
});

/** The registry's own function of a check, and its arguments. */
const buildCall = ({ registry, check, delegate, vault, contract, tokenId, rights }: Question) => {
  const args: (readonly [type: string, value: unknown])[] = [
    // viem rejects other letter cases than a checksum's.
    ["address", delegate.toLowerCase()],
    ["address", vault.toLowerCase()],
    ...(contract === undefined ? [] : [["address", contract.toLowerCase()] as const]),
    ...(tokenId === undefined ? [] : [["uint256", BigInt(tokenId)] as const]),
    ...(registry === "v1" ? [] : [["bytes32", toBytes32(rights ?? "")] as const]),
  ];
  const name = FUNCTIONS[registry][check] ?? "";
  return {
    abi: [
      {
        type: "function",
        name,
        stateMutability: "view",
        inputs: args.map(([type], place) => ({ name: `${place}`, type })),
        outputs: [{ name: "", type: isBalance(check) ? "uint256" : "bool" }],
      },
    ],
    functionName: name,
    args: args.map(([, value]) => value),
  };
};

/** Rights as the registry has them, from the same texts as the service takes. A text is padded with zeros. */
const toBytes32 = (rights: string): string => {
  if (/^0x[0-9a-f]{64}$/i.test(rights)) return rights.toLowerCase();
  const bytes = new TextEncoder().encode(/^0x$/i.test(rights) ? "" : rights);
  if (bytes.length > 31 || /^0x./i.test(rights)) {
    throw new RangeError(`A right is 0x with 64 hex digits, or a text of at most 31 bytes, not ${rights}.`);
  }
  return `0x${[...bytes]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("")
    .padEnd(64, "0")}`;
};

const describe = (error: unknown): string =>
  (error as { shortMessage?: string }).shortMessage ?? (error instanceof Error ? error.message : String(error));
