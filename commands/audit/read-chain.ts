import { type Abi, type Address, BaseError, ContractFunctionZeroDataError, type Hash, zeroAddress } from "viem";
import { readContract } from "viem/actions";
import { registryV1Abi, registryV2Abi } from "../../registry/abi.ts";
import { FULL_RIGHTS, NO_CONTRACT, NO_TOKEN } from "../../registry/delegation.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import { type Block, CannotAuditError } from "./cannot-audit.ts";
import { type Delegation, lowerCase, type Side } from "./delegation.ts";
import type { Question } from "./question.ts";
import { describeRpcError, type Rpc } from "./rpc.ts";

type Addresses = Readonly<Record<RegistryVersion, Address | null>>;

/** Block to read at: by hash if the node supports it (EIP-1898), as a reorg is then an error and not another block's answer. */
type At = { blockHash: Hash } | { blockNumber: bigint };

/** Types in the order of the registries' enums. */
const V1_TYPES = ["ALL", "CONTRACT", "TOKEN"] as const;
const V2_TYPES = ["ALL", "CONTRACT", "ERC721", "ERC20", "ERC1155"] as const;

const findType = <Type>(types: readonly Type[], number: number): Type => {
  const type = types[number - 1];
  if (type === undefined) throw new CannotAuditError(`The registry has a delegation of the unknown type ${number}.`);
  return type;
};

/** Reads the registries' state at one block. */
export class RegistryReader {
  readonly #rpc: Rpc;
  readonly #at: At;
  readonly #addresses: Addresses;

  private constructor(rpc: Rpc, at: At, addresses: Addresses) {
    this.#rpc = rpc;
    this.#at = at;
    this.#addresses = addresses;
  }

  /** Throws a CannotAuditError if the node does not have the block's state. */
  static async open(rpc: Rpc, block: Block, addresses: Addresses): Promise<RegistryReader> {
    try {
      return await RegistryReader.#openAt(rpc, { blockHash: block.hash }, addresses);
    } catch {
      // The node cannot read by hash, or does not have this block.
    }
    try {
      return await RegistryReader.#openAt(rpc, { blockNumber: block.number }, addresses);
    } catch (error) {
      throw new CannotAuditError(
        `The RPC does not have the state of block ${block.number}. Set PONDER_RPC_URL_<chainId> to an archive node, which has the state of old blocks, or omit --block. The RPC says: ${describeRpcError(error)}`,
      );
    }
  }

  /** Finds the registries that exist at the block. The others have no delegations. */
  static async #openAt(rpc: Rpc, at: At, addresses: Addresses): Promise<RegistryReader> {
    const findAddress = async (registry: RegistryVersion) => {
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
    return new RegistryReader(rpc, at, { v1: await findAddress("v1"), v2: await findAddress("v2") });
  }

  /** True if reads would miss a reorg. */
  get readsByNumber(): boolean {
    return "blockNumber" in this.#at;
  }

  /** Reads the delegations to a wallet, or by it. */
  async readList(registry: RegistryVersion, side: Side, wallet: Address): Promise<Delegation[]> {
    const address = this.#addresses[registry];
    if (address === null) return [];
    if (registry === "v2") return this.#readV2(address, side, wallet);
    return side === "incoming" ? this.#readIncomingV1(address, wallet) : this.#readOutgoingV1(address, wallet);
  }

  async #readIncomingV1(address: Address, wallet: Address): Promise<Delegation[]> {
    const call = { abi: registryV1Abi, address, functionName: "getDelegationsByDelegate", args: [wallet] } as const;
    const rows = await this.#rpc.request((client) => readContract(client, { ...call, ...this.#at }));
    return rows.map(({ type_, vault, delegate, contract_, tokenId }) =>
      createDelegationV1({ type: findType(V1_TYPES, type_), vault, delegate, contract: contract_, tokenId }),
    );
  }

  async #readOutgoingV1(address: Address, wallet: Address): Promise<Delegation[]> {
    const call = { abi: registryV1Abi, address, args: [wallet], ...this.#at } as const;
    const [delegates, contracts, tokens] = await Promise.all([
      this.#rpc.request((client) => readContract(client, { ...call, functionName: "getDelegatesForAll" })),
      this.#rpc.request((client) => readContract(client, { ...call, functionName: "getContractLevelDelegations" })),
      this.#rpc.request((client) => readContract(client, { ...call, functionName: "getTokenLevelDelegations" })),
    ]);
    return [
      ...delegates.map((delegate) =>
        createDelegationV1({ type: "ALL", vault: wallet, delegate, contract: NO_CONTRACT, tokenId: NO_TOKEN }),
      ),
      ...contracts.map(({ delegate, contract_: contract }) =>
        createDelegationV1({ type: "CONTRACT", vault: wallet, delegate, contract, tokenId: NO_TOKEN }),
      ),
      ...tokens.map(({ delegate, contract_: contract, tokenId }) =>
        createDelegationV1({ type: "TOKEN", vault: wallet, delegate, contract, tokenId }),
      ),
    ];
  }

  async #readV2(address: Address, side: Side, wallet: Address): Promise<Delegation[]> {
    const functionName = side === "incoming" ? "getIncomingDelegations" : "getOutgoingDelegations";
    const call = { abi: registryV2Abi, address, functionName, args: [wallet] } as const;
    const rows = await this.#rpc.request((client) => readContract(client, { ...call, ...this.#at }));
    return rows.map(({ type_, from, to, rights, contract_, tokenId, amount }) => ({
      registry: "v2",
      type: findType(V2_TYPES, type_),
      vault: lowerCase(from),
      delegate: lowerCase(to),
      contract: lowerCase(contract_),
      tokenId,
      rights,
      amount,
    }));
  }

  /** Returns the registry's own answer to a check. */
  async check({ check, about }: Question): Promise<string> {
    const { version, returns, contractFunction, takes } = check;
    const address = this.#addresses[version];
    if (address === null) return returns === "balance" ? "0" : "false";
    const abi: Abi = version === "v1" ? registryV1Abi : registryV2Abi;
    const args = [about.delegate, about.vault, ...takes.map((parameter) => about[parameter])];
    const call = { abi, address, functionName: contractFunction, args, ...this.#at };
    return String(await this.#rpc.request((client) => readContract(client, call)));
  }
}

const createDelegationV1 = (delegation: Omit<Delegation, "registry" | "rights" | "amount">): Delegation => ({
  ...delegation,
  registry: "v1",
  vault: lowerCase(delegation.vault),
  delegate: lowerCase(delegation.delegate),
  contract: lowerCase(delegation.contract),
  rights: FULL_RIGHTS,
  amount: 0n,
});
