import {
  type Abi,
  type Address,
  BaseError,
  type ContractFunctionName,
  type ContractFunctionReturnType,
  ContractFunctionZeroDataError,
  type Hash,
  zeroAddress,
} from "viem";
import { multicall, readContract } from "viem/actions";
import { registryV1Abi, registryV2Abi } from "../../registry/abi.ts";
import { FULL_RIGHTS, NO_CONTRACT, NO_TOKEN } from "../../registry/delegation.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import { type Delegation, lowerCase, type Side } from "./delegation.ts";
import { describeRpcError, isTooLarge, type LimitedRpc } from "./limited-rpc.ts";
import type { Question } from "./question.ts";

export type Addresses = Readonly<Record<RegistryVersion, Address | null>>;

export type Block = { number: bigint; hash: Hash };

/** One of a wallet's lists. */
export type AskedList = { registry: RegistryVersion; side: Side; wallet: Address };

/** A list, and the number of delegations that it probably has. */
type ExpectedList = AskedList & { delegations: readonly unknown[] };

/** A node does not have the state of a block. */
class StateUnavailableError extends Error {
  override name = "StateUnavailableError";
}

/** Block to read at: by hash if the node supports it (EIP-1898), as a reorg is then an error and not another block's answer. */
type At = { blockHash: Hash } | { blockNumber: bigint };

/** Types in the order of the registries' enums. */
const V1_TYPES = ["ALL", "CONTRACT", "TOKEN"] as const;
const V2_TYPES = ["ALL", "CONTRACT", "ERC721", "ERC20", "ERC1155"] as const;

const findType = <Type>(types: readonly Type[], number: number): Type => {
  const type = types[number - 1];
  if (type === undefined) throw new Error(`The registry has a delegation of the unknown type ${number}.`);
  return type;
};

type Call = { abi: Abi; address: Address; functionName: string; args: readonly unknown[] };
type ListCalls = { calls: Call[]; decode: (results: readonly unknown[]) => Delegation[] };

/** The most bytes that a batch returns. It returns them as a contract's code, which may have 24,576. */
const MAX_BATCH_BYTES = 22_000;
const BYTES_PER_CALL = 192;
const BYTES_PER_DELEGATION = 224;

/** Reads the registries' state at one block. */
export class RegistryReader {
  readonly #rpc: LimitedRpc;
  readonly #at: At;
  readonly #addresses: Addresses;

  private constructor(rpc: LimitedRpc, at: At, addresses: Addresses) {
    this.#rpc = rpc;
    this.#at = at;
    this.#addresses = addresses;
  }

  /** Throws a StateUnavailableError if the node does not have the block's state. */
  static async open(rpc: LimitedRpc, block: Block, addresses: Addresses): Promise<RegistryReader> {
    try {
      return await RegistryReader.#openAt(rpc, { blockHash: block.hash }, addresses);
    } catch {
      // The node cannot read by hash, or does not have this block.
    }
    try {
      return await RegistryReader.#openAt(rpc, { blockNumber: block.number }, addresses);
    } catch (error) {
      throw new StateUnavailableError(
        `The RPC does not have the state of block ${block.number}. Set PONDER_RPC_URL_<chainId> to an archive node, which has the state of old blocks. The RPC says: ${describeRpcError(error)}`,
        { cause: error },
      );
    }
  }

  /** Finds the registries that exist at the block. The others have no delegations. */
  static async #openAt(rpc: LimitedRpc, at: At, addresses: Addresses): Promise<RegistryReader> {
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
    const [v1, v2] = await Promise.all([findAddress("v1"), findAddress("v2")]);
    return new RegistryReader(rpc, at, { v1, v2 });
  }

  /** True if reads would miss a reorg. */
  get readsByNumber(): boolean {
    return "blockNumber" in this.#at;
  }

  /** Reads the delegations to a wallet, or by it. */
  async readList(registry: RegistryVersion, side: Side, wallet: Address): Promise<Delegation[]> {
    const list = this.#describeList({ registry, side, wallet });
    const call = (one: Call) => this.#rpc.request((client) => readContract(client, { ...one, ...this.#at }));
    return list.decode(await Promise.all(list.calls.map(call)));
  }

  /** Reads lists, many with one request if the node can. */
  async readLists(lists: readonly ExpectedList[]): Promise<Delegation[][]> {
    const batches: ExpectedList[][] = [[]];
    let left = MAX_BATCH_BYTES;
    for (const list of lists) {
      const { calls } = this.#describeList(list);
      const bytes = calls.length * BYTES_PER_CALL + list.delegations.length * BYTES_PER_DELEGATION;
      if (bytes > left) batches.push([]);
      left = (bytes > left ? MAX_BATCH_BYTES : left) - bytes;
      batches.at(-1)?.push(list);
    }
    return (await Promise.all(batches.map((batch) => this.#readBatch(batch)))).flat();
  }

  async #readBatch(lists: readonly ExpectedList[]): Promise<Delegation[][]> {
    if (lists.length < 2 || !this.#rpc.canBatch) {
      return Promise.all(lists.map(({ registry, side, wallet }) => this.readList(registry, side, wallet)));
    }
    const found = await this.#readTogether(lists);
    if (found) return found;
    // A node that refuses two lists has no batches, as on a ZK Stack.
    if (lists.length === 2) this.#rpc.canBatch = false;
    const middle = Math.ceil(lists.length / 2);
    return [...(await this.#readBatch(lists.slice(0, middle))), ...(await this.#readBatch(lists.slice(middle)))];
  }

  /** @returns undefined if the node refuses so many, or cannot run a contract that is not on the chain */
  async #readTogether(asked: readonly AskedList[]): Promise<Delegation[][] | undefined> {
    const lists = asked.map((one) => this.#describeList(one));
    const contracts = lists.flatMap(({ calls }) => calls);
    const results = await this.#rpc.request(async (client) => {
      const answered = await multicall(client, { contracts, deployless: true, batchSize: 0, ...this.#at });
      const outage = answered.find(({ error }) => error !== undefined && !isTooLarge(error));
      if (outage) throw outage.error;
      return answered;
    });
    if (results.some(({ status }) => status === "failure")) return undefined;
    return lists.map(({ calls, decode }) => decode(results.splice(0, calls.length).map(({ result }) => result)));
  }

  #describeList({ registry, side, wallet }: AskedList): ListCalls {
    const address = this.#addresses[registry];
    if (address === null) return { calls: [], decode: () => [] };
    const abi: Abi = registry === "v1" ? registryV1Abi : registryV2Abi;
    const { functions, decode } = LISTS[registry][side];
    return {
      calls: functions.map((functionName) => ({ abi, address, functionName, args: [wallet] })),
      decode: (results) => decode(results, wallet),
    };
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

type ResultOf<TAbi extends Abi, Name extends ContractFunctionName<TAbi>> = ContractFunctionReturnType<
  TAbi,
  "view",
  Name
>;

const decodeV2 = ([rows]: readonly unknown[]): Delegation[] =>
  (rows as ResultOf<typeof registryV2Abi, "getIncomingDelegations">).map(
    ({ type_, from, to, rights, contract_, tokenId, amount }) => ({
      registry: "v2",
      type: findType(V2_TYPES, type_),
      vault: lowerCase(from),
      delegate: lowerCase(to),
      contract: lowerCase(contract_),
      tokenId,
      rights,
      amount,
    }),
  );

const decodeIncomingV1 = ([rows]: readonly unknown[]): Delegation[] =>
  (rows as ResultOf<typeof registryV1Abi, "getDelegationsByDelegate">).map(
    ({ type_, vault, delegate, contract_, tokenId }) =>
      createDelegationV1({ type: findType(V1_TYPES, type_), vault, delegate, contract: contract_, tokenId }),
  );

const decodeOutgoingV1 = ([delegates, contracts, tokens]: readonly unknown[], vault: Address): Delegation[] => [
  ...(delegates as ResultOf<typeof registryV1Abi, "getDelegatesForAll">).map((delegate) =>
    createDelegationV1({ type: "ALL", vault, delegate, contract: NO_CONTRACT, tokenId: NO_TOKEN }),
  ),
  ...(contracts as ResultOf<typeof registryV1Abi, "getContractLevelDelegations">).map(
    ({ delegate, contract_: contract }) =>
      createDelegationV1({ type: "CONTRACT", vault, delegate, contract, tokenId: NO_TOKEN }),
  ),
  ...(tokens as ResultOf<typeof registryV1Abi, "getTokenLevelDelegations">).map(
    ({ delegate, contract_: contract, tokenId }) =>
      createDelegationV1({ type: "TOKEN", vault, delegate, contract, tokenId }),
  ),
];

const createDelegationV1 = (delegation: Omit<Delegation, "registry" | "rights" | "amount">): Delegation => ({
  ...delegation,
  registry: "v1",
  vault: lowerCase(delegation.vault),
  delegate: lowerCase(delegation.delegate),
  contract: lowerCase(delegation.contract),
  rights: FULL_RIGHTS,
  amount: 0n,
});

/** The registries' functions for each list. */
const LISTS = {
  v1: {
    incoming: { functions: ["getDelegationsByDelegate"], decode: decodeIncomingV1 },
    outgoing: {
      functions: ["getDelegatesForAll", "getContractLevelDelegations", "getTokenLevelDelegations"],
      decode: decodeOutgoingV1,
    },
  },
  v2: {
    incoming: { functions: ["getIncomingDelegations"], decode: decodeV2 },
    outgoing: { functions: ["getOutgoingDelegations"], decode: decodeV2 },
  },
};
