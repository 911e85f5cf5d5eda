import { type Address, type Client, type Log, parseEventLogs } from "viem";
import { getLogs } from "viem/actions";
import { type DelegationKey, lowerCase } from "../../indexer/verification/delegation.ts";
import { isTooLarge, type LimitedRpc } from "../../indexer/verification/limited-rpc.ts";
import { registryV1Abi, registryV2Abi } from "../../registry/abi.ts";
import { FULL_RIGHTS, NO_CONTRACT, NO_TOKEN } from "../../registry/delegation.ts";

/** Limit of most providers. Halved for a provider that refuses it. */
const MAX_RANGE = 10_000n;

/** Blocks per random range. */
const RANDOM_RANGE = 2_000n;
const MAX_RANDOM_RANGES = 40;

const parse = (logs: Log[]) => parseEventLogs({ abi: [...registryV1Abi, ...registryV2Abi], logs });

type RegistryEvent = ReturnType<typeof parse>[number];

const readWallets = ({ args }: RegistryEvent): Address[] => {
  if ("from" in args) return [lowerCase(args.from), lowerCase(args.to)];
  return "delegate" in args ? [lowerCase(args.vault), lowerCase(args.delegate)] : [lowerCase(args.vault)];
};

const TYPES = {
  DelegateForAll: "ALL",
  DelegateForContract: "CONTRACT",
  DelegateForToken: "TOKEN",
  DelegateAll: "ALL",
  DelegateContract: "CONTRACT",
  DelegateERC721: "ERC721",
  DelegateERC20: "ERC20",
  DelegateERC1155: "ERC1155",
} as const;

/** Returns the delegation that an event makes or revokes; null if it revokes several. */
const readDelegation = ({ eventName, args }: RegistryEvent): DelegationKey | null => {
  if (eventName === "RevokeAllDelegates" || eventName === "RevokeDelegate") return null;
  const scope = {
    type: TYPES[eventName],
    contract: "contract_" in args ? lowerCase(args.contract_) : NO_CONTRACT,
    tokenId: "tokenId" in args ? args.tokenId : NO_TOKEN,
  };
  if ("from" in args) {
    return { registry: "v2", vault: lowerCase(args.from), delegate: lowerCase(args.to), rights: args.rights, ...scope };
  }
  if (!("delegate" in args)) return null;
  return {
    registry: "v1",
    vault: lowerCase(args.vault),
    delegate: lowerCase(args.delegate),
    rights: FULL_RIGHTS,
    ...scope,
  };
};

/** Reads the registries' events. Splits a range that a provider refuses. */
export class EventReader {
  readonly #rpc: LimitedRpc;
  readonly #addresses: Address[];
  /** Wallets that the events name. */
  readonly wallets = new Set<Address>();
  /** Delegations that the events name. */
  readonly delegations: DelegationKey[] = [];
  #maxRange = MAX_RANGE;

  constructor(rpc: LimitedRpc, addresses: readonly Address[]) {
    this.#rpc = rpc;
    this.#addresses = [...addresses];
  }

  /** Reads all events from the first to the last block, inclusive. */
  async readAll(first: bigint, last: bigint, onRead: (block: bigint) => void): Promise<void> {
    const maxRange = () => this.#maxRange;
    function* ranges() {
      for (let from = first; from <= last; ) {
        const to = min(last, from + maxRange() - 1n);
        yield [from, to] as const;
        from = to + 1n;
      }
    }
    await this.#rpc.forEach(ranges(), async ([from, to]) => {
      await this.#read(from, to);
      onRead(to);
    });
  }

  /** Reads random block ranges until they name enough wallets, at most 40 ranges. */
  async readRandom(first: bigint, last: bigint, wallets: number): Promise<void> {
    const isShort = last - first < RANDOM_RANGE;
    const maxRanges = isShort ? 1 : MAX_RANDOM_RANGES;
    for (let ranges = 0; ranges < maxRanges && this.wallets.size < wallets; ranges++) {
      const from = isShort ? first : first + BigInt(Math.floor(Math.random() * Number(last - first)));
      await this.readAll(from, min(last, from + RANDOM_RANGE - 1n), () => {});
    }
  }

  async #read(from: bigint, to: bigint): Promise<void> {
    const request = (client: Client) => getLogs(client, { address: this.#addresses, fromBlock: from, toBlock: to });
    try {
      for (const event of parse(await this.#rpc.request(request))) {
        for (const wallet of readWallets(event)) this.wallets.add(wallet);
        const delegation = readDelegation(event);
        if (delegation) this.delegations.push(delegation);
      }
    } catch (error) {
      if (from === to || !isTooLarge(error)) throw error;
      const half = (to - from + 1n) / 2n;
      this.#maxRange = min(this.#maxRange, half);
      await this.#read(from, from + half - 1n);
      await this.#read(from + half, to);
    }
  }
}

const min = (a: bigint, b: bigint) => (a < b ? a : b);
