import { hash as digestOf } from "node:crypto";
import {
  type Address,
  type Hex,
  isAddressEqual,
  numberToHex,
  toEventSelector,
  toFunctionSelector,
  zeroHash,
} from "viem";
import { hasAmount } from "../registry/delegation.ts";

// A chain with registry events, generated from block numbers: the same number always gives the same
// block, and no block is stored.

/**
 * As many as a mainnet block could hold. Ponder starts with 20 requests per second and requests each
 * block: with few events per block, the benchmark would measure that limit.
 */
const EVENTS_PER_BLOCK = 500;

/** More blocks than Ponder considers unfinalized on chain 1: all events are final. */
const EMPTY_BLOCKS = 70;

const GENESIS_SECONDS = 1_660_000_000;
const BLOCK_SECONDS = 12;

/** Consecutive events come from one wallet, as when somebody sets up a new one. */
const EVENTS_PER_WALLET = 4;
/** One busy wallet, with hundreds of delegations, per this many events. */
const EVENTS_PER_BUSY_WALLET = 5_000;
const BUSY_SHARE = 0.05;
const V1_SHARE = 0.4;
/** Maximum distance, in wallets, to the delegation that an event changes or revokes. */
const MAX_REACH = 1_000;
const CONTRACTS = 500;

type Registry = "v1" | "v2";

const TOPIC = {
  DelegateForAll: toEventSelector("DelegateForAll(address,address,bool)"),
  DelegateForContract: toEventSelector("DelegateForContract(address,address,address,bool)"),
  DelegateForToken: toEventSelector("DelegateForToken(address,address,address,uint256,bool)"),
  RevokeAllDelegates: toEventSelector("RevokeAllDelegates(address)"),
  RevokeDelegate: toEventSelector("RevokeDelegate(address,address)"),
  DelegateAll: toEventSelector("DelegateAll(address,address,bytes32,bool)"),
  DelegateContract: toEventSelector("DelegateContract(address,address,address,bytes32,bool)"),
  DelegateERC721: toEventSelector("DelegateERC721(address,address,address,uint256,bytes32,bool)"),
  DelegateERC20: toEventSelector("DelegateERC20(address,address,address,bytes32,uint256)"),
  DelegateERC1155: toEventSelector("DelegateERC1155(address,address,address,uint256,bytes32,uint256)"),
};
const REVOKE_DELEGATE_CALL = toFunctionSelector("revokeDelegate(address)");
const OTHER_CALL = toFunctionSelector("multicall(bytes[])");

/** Derives 64 pseudo-random hex digits. */
const digits = (what: string, number: number): string => digestOf("sha256", `${what} ${number}`);
const addressOf = (what: string, number: number): Address => `0x${digits(what, number).slice(0, 40)}`;

/** Seeds of the random choices. */
const CHANCE = {
  registry: 1,
  busy: 2,
  busyWallet: 3,
  type: 4,
  contract: 5,
  token: 6,
  rights: 7,
  kind: 8,
  amount: 9,
  reach: 10,
  nth: 11,
};

/** Derives a pseudo-random number in [0, 1) with the finalizer of MurmurHash3. */
const chance = (what: keyof typeof CHANCE, number: number): number => {
  let mixed = number ^ Math.imul(CHANCE[what], 0x9e3779b1);
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return ((mixed ^ (mixed >>> 16)) >>> 0) / 2 ** 32;
};
const chanceBelow = (limit: number, what: keyof typeof CHANCE, number: number): number =>
  Math.floor(chance(what, number) * limit);

const word = (hex: Hex): string => hex.slice(2).padStart(64, "0");
const numberWord = (number: number): string => number.toString(16).padStart(64, "0");
const topicOf = (address: Address): Hex => `0x${word(address)}`;

const contracts = Array.from({ length: CONTRACTS }, (_, number) => addressOf("contract", number));
const FULL_RIGHTS = numberWord(0);

type DelegationType = "ALL" | "CONTRACT" | "TOKEN" | "ERC721" | "ERC20" | "ERC1155";

const typeOf = (registry: Registry, part: number): DelegationType => {
  if (registry === "v1") return part < 0.6 ? "ALL" : part < 0.8 ? "CONTRACT" : "TOKEN";
  return part < 0.5 ? "ALL" : part < 0.7 ? "CONTRACT" : part < 0.85 ? "ERC721" : part < 0.92 ? "ERC20" : "ERC1155";
};

type Delegation = {
  registry: Registry;
  vault: Address;
  delegate: Address;
  type: DelegationType;
  contract: Address;
  tokenId: string;
  rights: string;
};

const registryOf = (wallet: number): Registry => (chance("registry", wallet) < V1_SHARE ? "v1" : "v2");

/** Derives the delegation that an event makes, if it makes one. */
const generateDelegation = (event: number): Delegation => {
  const wallet = Math.floor(event / EVENTS_PER_WALLET);
  const registry = registryOf(wallet);
  const busyWallets = 1 + Math.floor(event / EVENTS_PER_BUSY_WALLET);
  return {
    registry,
    vault:
      chance("busy", event) < BUSY_SHARE
        ? addressOf("busy wallet", chanceBelow(busyWallets, "busyWallet", event))
        : addressOf("wallet", wallet),
    delegate: addressOf("delegate", Math.floor(event / 2)),
    type: typeOf(registry, chance("type", event)),
    contract: contracts[chanceBelow(CONTRACTS, "contract", event)] ?? "0x",
    tokenId: numberWord(chanceBelow(1_000_000, "token", event)),
    rights: chance("rights", event) < 0.9 ? FULL_RIGHTS : numberWord(1 + (event % 5)),
  };
};

/** Finds an earlier delegation in the same registry. */
const findEarlierDelegation = (event: number, registry: Registry, matches: Filter = matchesAny): Delegation => {
  const newest = Math.floor(event / EVENTS_PER_WALLET) - 1 - chanceBelow(MAX_REACH, "reach", event);
  const nth = chanceBelow(EVENTS_PER_WALLET, "nth", event);
  for (let wallet = newest; wallet >= 0; wallet--) {
    if (registryOf(wallet) !== registry) continue;
    const delegation = generateDelegation(wallet * EVENTS_PER_WALLET + nth);
    if (matches(delegation)) return delegation;
  }
  return generateDelegation(event);
};

type Filter = (delegation: Delegation) => boolean;
const matchesAny: Filter = () => true;
const isBalance: Filter = ({ type }) => hasAmount(type);

type RegistryEvent = { registry: Registry; sender: Address; topics: Hex[]; data: Hex; input: Hex };

const generateEvent = (event: number): RegistryEvent => {
  const registry = registryOf(Math.floor(event / EVENTS_PER_WALLET));
  const kind = chance("kind", event);
  const earlier = (matches?: Filter) => findEarlierDelegation(event, registry, matches);

  if (registry === "v1") {
    if (kind < 0.01) return revokeAll(earlier());
    if (kind < 0.02) return revokeSelf(earlier());
    if (kind < 0.03) return revokeDelegate(earlier());
    return kind < 0.1 ? setV1(earlier(), false) : setV1(generateDelegation(event), true);
  }
  if (kind < 0.1) return setV2(earlier(), 0);
  const amount = 1 + chanceBelow(1_000_000, "amount", event);
  return kind < 0.15 ? setV2(earlier(isBalance), amount) : setV2(generateDelegation(event), amount);
};

const revokeAll = ({ vault }: Delegation): RegistryEvent =>
  eventV1(vault, TOPIC.RevokeAllDelegates, word(vault), OTHER_CALL);

const revokeSelf = ({ vault, delegate }: Delegation): RegistryEvent =>
  eventV1(delegate, TOPIC.RevokeDelegate, word(vault) + word(delegate), OTHER_CALL);

/** The event names the vault twice; only the call data names the delegate. */
const revokeDelegate = ({ vault, delegate }: Delegation): RegistryEvent => ({
  ...eventV1(vault, TOPIC.RevokeDelegate, word(vault) + word(vault), REVOKE_DELEGATE_CALL),
  input: `${REVOKE_DELEGATE_CALL}${word(delegate)}`,
});

const setV1 = ({ vault, delegate, type, contract, tokenId }: Delegation, value: boolean): RegistryEvent => {
  const wallets = word(vault) + word(delegate);
  const isOn = numberWord(Number(value));
  if (type === "ALL") return eventV1(vault, TOPIC.DelegateForAll, wallets + isOn, OTHER_CALL);
  if (type === "CONTRACT") {
    return eventV1(vault, TOPIC.DelegateForContract, wallets + word(contract) + isOn, OTHER_CALL);
  }
  return eventV1(vault, TOPIC.DelegateForToken, wallets + word(contract) + tokenId + isOn, OTHER_CALL);
};

const eventV1 = (sender: Address, topic: Hex, words: string, selector: Hex): RegistryEvent => ({
  registry: "v1",
  sender,
  topics: [topic],
  data: `0x${words}`,
  input: `${selector}${words}`,
});

const setV2 = (delegation: Delegation, amount: number): RegistryEvent => {
  const { vault, delegate, type, contract, tokenId, rights } = delegation;
  const wallets = [topicOf(vault), topicOf(delegate)];
  const isOn = numberWord(amount > 0 ? 1 : 0);
  const eventV2 = (topics: Hex[], words: string): RegistryEvent => ({
    registry: "v2",
    sender: vault,
    topics,
    data: `0x${words}`,
    input: `${OTHER_CALL}${words}`,
  });
  if (type === "ALL") return eventV2([TOPIC.DelegateAll, ...wallets], rights + isOn);
  const scope = [...wallets, topicOf(contract)];
  if (type === "CONTRACT") return eventV2([TOPIC.DelegateContract, ...scope], rights + isOn);
  if (type === "ERC721") return eventV2([TOPIC.DelegateERC721, ...scope], tokenId + rights + isOn);
  if (type === "ERC20") return eventV2([TOPIC.DelegateERC20, ...scope], rights + numberWord(amount));
  return eventV2([TOPIC.DelegateERC1155, ...scope], tokenId + rights + numberWord(amount));
};

const EMPTY_BLOOM: Hex = `0x${"0".repeat(512)}`;
const FULL_BLOOM: Hex = `0x${"f".repeat(512)}`;

export class ReplayChain {
  readonly #events: number;
  readonly #addresses: Record<Registry, Address>;

  constructor(events: number, addresses: Record<Registry, Address>) {
    this.#events = events;
    this.#addresses = addresses;
  }

  get head(): number {
    return Math.ceil(this.#events / EVENTS_PER_BLOCK) + EMPTY_BLOCKS;
  }

  blockHash(number: number): Hex {
    if (number < 0) return zeroHash;
    // The hash ends with the number, so that a block can be found by its hash.
    return `0x${digits("block", number).slice(8)}${number.toString(16).padStart(8, "0")}`;
  }

  /** Returns the number of the block with this hash; null if there is none. */
  blockNumber(hash: Hex): number | null {
    const number = Number.parseInt(hash.slice(-8), 16);
    return number <= this.head && this.blockHash(number) === hash ? number : null;
  }

  block(number: number, withTransactions: boolean) {
    const transactions = withTransactions ? this.#transactions(number).map(({ transaction }) => transaction) : [];
    const hasEvents = number > 0 && number <= this.head - EMPTY_BLOCKS;
    return {
      number: numberToHex(number),
      hash: this.blockHash(number),
      parentHash: this.blockHash(number - 1),
      timestamp: numberToHex(GENESIS_SECONDS + number * BLOCK_SECONDS),
      logsBloom: hasEvents ? FULL_BLOOM : EMPTY_BLOOM,
      miner: contracts[0],
      gasUsed: "0x1c9c380",
      gasLimit: "0x1c9c380",
      baseFeePerGas: "0x7",
      nonce: "0x0000000000000000",
      mixHash: zeroHash,
      stateRoot: zeroHash,
      receiptsRoot: zeroHash,
      transactionsRoot: zeroHash,
      sha3Uncles: zeroHash,
      size: "0x10000",
      difficulty: "0x0",
      totalDifficulty: "0x0",
      extraData: "0x",
      transactions,
    };
  }

  /** Returns the logs of a registry in a block. */
  logs(number: number, address: Address) {
    const blockHash = this.blockHash(number);
    const isV1 = isAddressEqual(address, this.#addresses.v1);
    return this.#transactions(number).flatMap(({ transaction, events }) =>
      events.flatMap(({ registry, topics, data, logIndex }) =>
        isV1 === (registry === "v1")
          ? {
              address,
              topics,
              data,
              blockNumber: numberToHex(number),
              blockHash,
              transactionHash: transaction.hash,
              transactionIndex: transaction.transactionIndex,
              logIndex: numberToHex(logIndex),
              removed: false,
            }
          : [],
      ),
    );
  }

  #transactions(number: number) {
    const first = (number - 1) * EVENTS_PER_BLOCK;
    const groups: (RegistryEvent & { logIndex: number })[][] = [];
    for (let logIndex = 0; logIndex < EVENTS_PER_BLOCK && first >= 0; logIndex++) {
      if (first + logIndex >= this.#events) break;
      const event = { ...generateEvent(first + logIndex), logIndex };
      const last = groups.at(-1);
      // Only v2 has a multicall.
      const isTogether = last?.[0]?.sender === event.sender && last[0].registry === "v2" && event.registry === "v2";
      if (isTogether) last.push(event);
      else groups.push([event]);
    }

    const blockHash = this.blockHash(number);
    return groups.map((events, index) => {
      const [{ sender, registry, input, logIndex }] = events as [RegistryEvent & { logIndex: number }];
      const transaction = {
        hash: `0x${digits("transaction", first + logIndex)}`,
        transactionIndex: numberToHex(index),
        blockNumber: numberToHex(number),
        blockHash,
        from: sender,
        to: this.#addresses[registry],
        input,
        value: "0x0",
        nonce: "0x1",
        gas: "0x186a0",
        gasPrice: "0x3b9aca00",
        maxFeePerGas: "0x3b9aca00",
        maxPriorityFeePerGas: "0x1",
        type: "0x2",
        chainId: "0x1",
        v: "0x0",
        r: blockHash,
        s: blockHash,
        accessList: [],
      };
      return { transaction, events };
    });
  }
}
