import type { PublicClient } from "viem";
import { FUNCTIONS } from "./checks.ts";
import type { ChainReader } from "./client.ts";
import { isBalance, type Question } from "./questions.ts";
import { type Addresses, findRegistry, toBytes32 } from "./registries.ts";
import { RegistryError } from "./registry-error.ts";

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
    try {
      const value = await client.readContract({
        address: findRegistry(chainId, registry, addresses[chainId]),
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

const describe = (error: unknown): string =>
  (error as { shortMessage?: string }).shortMessage ?? (error instanceof Error ? error.message : String(error));
