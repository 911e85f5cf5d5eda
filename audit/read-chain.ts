import { type Address, BaseError, ContractFunctionZeroDataError, type Hash, zeroAddress } from "viem";
import { readContract } from "viem/actions";
import { registryV1Abi, registryV2Abi } from "../registry/abi.ts";
import { isBalanceCheck } from "../registry/check-rule.ts";
import { FULL_RIGHTS, NO_CONTRACT, NO_TOKEN } from "../registry/delegation.ts";
import type { RegistryVersion } from "../registry/networks.ts";
import { type Block, CannotAuditError } from "./cannot-audit.ts";
import { type Delegation, lowerCase, type Side } from "./delegation.ts";
import type { Question } from "./question.ts";
import { type Rpc, saidBy } from "./rpc.ts";

type Addresses = Readonly<Record<RegistryVersion, Address | null>>;

/** The block's hash where the node reads by it (EIP-1898): then a reorg is an error, and not another block's answer. */
type At = { blockHash: Hash } | { blockNumber: bigint };

/** The types as the registries number them. */
const V1_TYPES = ["ALL", "CONTRACT", "TOKEN"] as const;
const V2_TYPES = ["ALL", "CONTRACT", "ERC721", "ERC20", "ERC1155"] as const;

const typeOf = <Type>(types: readonly Type[], number: number): Type => {
  const type = types[number - 1];
  if (type === undefined)
    throw new CannotAuditError(`The registry tells of a delegation of the unknown type ${number}.`);
  return type;
};

/** What the registries themselves say at one block. */
export class RegistryReader {
  readonly #rpc: Rpc;
  readonly #at: At;
  readonly #addresses: Addresses;

  private constructor(rpc: Rpc, at: At, addresses: Addresses) {
    this.#rpc = rpc;
    this.#at = at;
    this.#addresses = addresses;
  }

  /** Throws a CannotAuditError where the node does not have the block's state. */
  static async open(rpc: Rpc, block: Block, addresses: Addresses): Promise<RegistryReader> {
    try {
      return await RegistryReader.#openAt(rpc, { blockHash: block.hash }, addresses);
    } catch {
      // A node that does not know how to, or not this block.
    }
    try {
      return await RegistryReader.#openAt(rpc, { blockNumber: block.number }, addresses);
    } catch (error) {
      throw new CannotAuditError(
        `The RPC does not tell the state of block ${block.number}. Name an archive node, which has the state of old blocks, in PONDER_RPC_URL_<chainId>; or leave --block out. It says: ${saidBy(error)}`,
      );
    }
  }

  /** With those registries that are there at the block: in the others nothing is delegated. */
  static async #openAt(rpc: Rpc, at: At, addresses: Addresses): Promise<RegistryReader> {
    const findOne = async (registry: RegistryVersion) => {
      try {
        await new RegistryReader(rpc, at, addresses).readList(registry, "incoming", zeroAddress);
        return addresses[registry];
      } catch (error) {
        if (error instanceof BaseError && error.walk((cause) => cause instanceof ContractFunctionZeroDataError)) {
          return null;
        }
        throw error;
      }
    };
    return new RegistryReader(rpc, at, { v1: await findOne("v1"), v2: await findOne("v2") });
  }

  /** Whether a reorg would go unnoticed. */
  get readByNumber(): boolean {
    return "blockNumber" in this.#at;
  }

  /** What a wallet is delegated, or delegates. */
  async readList(registry: RegistryVersion, side: Side, wallet: Address): Promise<Delegation[]> {
    const address = this.#addresses[registry];
    if (address === null) return [];
    if (registry === "v2") return this.#readV2(address, side, wallet);
    return side === "incoming" ? this.#readIncomingV1(address, wallet) : this.#readOutgoingV1(address, wallet);
  }

  async #readIncomingV1(address: Address, wallet: Address): Promise<Delegation[]> {
    const call = { abi: registryV1Abi, address, functionName: "getDelegationsByDelegate", args: [wallet] } as const;
    const rows = await this.#rpc.ask((client) => readContract(client, { ...call, ...this.#at }));
    return rows.map(({ type_, vault, delegate, contract_, tokenId }) =>
      delegationV1(typeOf(V1_TYPES, type_), vault, delegate, contract_, tokenId),
    );
  }

  async #readOutgoingV1(address: Address, wallet: Address): Promise<Delegation[]> {
    const call = { abi: registryV1Abi, address, args: [wallet], ...this.#at } as const;
    const [delegates, contracts, tokens] = await Promise.all([
      this.#rpc.ask((client) => readContract(client, { ...call, functionName: "getDelegatesForAll" })),
      this.#rpc.ask((client) => readContract(client, { ...call, functionName: "getContractLevelDelegations" })),
      this.#rpc.ask((client) => readContract(client, { ...call, functionName: "getTokenLevelDelegations" })),
    ]);
    return [
      ...delegates.map((delegate) => delegationV1("ALL", wallet, delegate, NO_CONTRACT, NO_TOKEN)),
      ...contracts.map(({ delegate, contract_ }) => delegationV1("CONTRACT", wallet, delegate, contract_, NO_TOKEN)),
      ...tokens.map(({ delegate, contract_, tokenId }) => delegationV1("TOKEN", wallet, delegate, contract_, tokenId)),
    ];
  }

  async #readV2(address: Address, side: Side, wallet: Address): Promise<Delegation[]> {
    const functionName = side === "incoming" ? "getIncomingDelegations" : "getOutgoingDelegations";
    const call = { abi: registryV2Abi, address, functionName, args: [wallet] } as const;
    const rows = await this.#rpc.ask((client) => readContract(client, { ...call, ...this.#at }));
    return rows.map(({ type_, from, to, rights, contract_, tokenId, amount }) => ({
      registry: "v2",
      type: typeOf(V2_TYPES, type_),
      vault: lowerCase(from),
      delegate: lowerCase(to),
      contract: lowerCase(contract_),
      tokenId,
      rights,
      amount,
    }));
  }

  /** The registry's own answer to a check. */
  async check({ check, about }: Question): Promise<string> {
    const address = this.#addresses[about.registry];
    if (address === null) return isBalanceCheck(check) ? "0" : "false";
    const { vault, delegate, contract, tokenId, rights } = about;
    const v1 = { abi: registryV1Abi, address, ...this.#at } as const;
    const v2 = { abi: registryV2Abi, address, ...this.#at } as const;
    const answer = await this.#rpc.ask((client): Promise<boolean | bigint> => {
      if (about.registry === "v1") {
        switch (check) {
          case "all":
            return readContract(client, { ...v1, functionName: "checkDelegateForAll", args: [delegate, vault] });
          case "contract":
            return readContract(client, {
              ...v1,
              functionName: "checkDelegateForContract",
              args: [delegate, vault, contract],
            });
          default:
            return readContract(client, {
              ...v1,
              functionName: "checkDelegateForToken",
              args: [delegate, vault, contract, tokenId],
            });
        }
      }
      switch (check) {
        case "all":
          return readContract(client, { ...v2, functionName: "checkDelegateForAll", args: [delegate, vault, rights] });
        case "contract":
          return readContract(client, {
            ...v2,
            functionName: "checkDelegateForContract",
            args: [delegate, vault, contract, rights],
          });
        case "erc20":
          return readContract(client, {
            ...v2,
            functionName: "checkDelegateForERC20",
            args: [delegate, vault, contract, rights],
          });
        case "erc1155":
          return readContract(client, {
            ...v2,
            functionName: "checkDelegateForERC1155",
            args: [delegate, vault, contract, tokenId, rights],
          });
        default:
          return readContract(client, {
            ...v2,
            functionName: "checkDelegateForERC721",
            args: [delegate, vault, contract, tokenId, rights],
          });
      }
    });
    return String(answer);
  }
}

const delegationV1 = (
  type: (typeof V1_TYPES)[number],
  vault: Address,
  delegate: Address,
  contract: Address,
  tokenId: bigint,
): Delegation => ({
  registry: "v1",
  type,
  vault: lowerCase(vault),
  delegate: lowerCase(delegate),
  contract: lowerCase(contract),
  tokenId,
  rights: FULL_RIGHTS,
  amount: 0n,
});
