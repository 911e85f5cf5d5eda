import { type Address, type Client, type Log, parseEventLogs } from "viem";
import { getLogs } from "viem/actions";
import { registryV1Abi, registryV2Abi } from "../registry/abi.ts";
import { FULL_RIGHTS, NO_CONTRACT, NO_TOKEN } from "../registry/delegation.ts";
import { type DelegationKey, lowerCase } from "./delegation.ts";
import { isTooMuch, type Rpc } from "./rpc.ts";

/** What providers usually allow; smaller where one does not. */
const LONGEST_RANGE = 10_000n;

/** How many blocks a random look takes in, and how often it is tried to find something. */
const LOOK = 2_000n;
const LOOKS = 40;

const parse = (logs: Log[]) => parseEventLogs({ abi: [...registryV1Abi, ...registryV2Abi], logs });

type RegistryEvent = ReturnType<typeof parse>[number];

const walletsOf = ({ args }: RegistryEvent): Address[] => {
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

/** The delegation that an event makes or ends; null for one that ends several. */
const delegationOf = ({ eventName, args }: RegistryEvent): DelegationKey | null => {
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

/** Reads the registries' events. What a provider refuses, it is asked for in halves. */
export class EventReader {
  readonly #rpc: Rpc;
  readonly #addresses: Address[];
  /** What the events name. */
  readonly wallets = new Set<Address>();
  readonly delegations: DelegationKey[] = [];
  #longest = LONGEST_RANGE;

  constructor(rpc: Rpc, addresses: readonly Address[]) {
    this.#rpc = rpc;
    this.#addresses = [...addresses];
  }

  /** All events from a block to another, both included. */
  async readAll(first: bigint, last: bigint, onRead: (block: bigint) => void): Promise<void> {
    const longest = () => this.#longest;
    function* ranges() {
      for (let from = first; from <= last; ) {
        const to = least(last, from + longest() - 1n);
        yield [from, to] as const;
        from = to + 1n;
      }
    }
    await this.#rpc.forEach(ranges(), async ([from, to]) => {
      await this.#read(from, to);
      onRead(to);
    });
  }

  /** Events of random ranges of blocks, until enough wallets are found or it was tried often enough. */
  async readSome(first: bigint, last: bigint, wallets: number): Promise<void> {
    const isShort = last - first < LOOK;
    for (let look = 0; look < (isShort ? 1 : LOOKS) && this.wallets.size < wallets; look++) {
      const from = isShort ? first : first + BigInt(Math.floor(Math.random() * Number(last - first)));
      await this.readAll(from, least(last, from + LOOK - 1n), () => {});
    }
  }

  async #read(from: bigint, to: bigint): Promise<void> {
    const request = (client: Client) => getLogs(client, { address: this.#addresses, fromBlock: from, toBlock: to });
    try {
      for (const event of parse(await this.#rpc.ask(request))) {
        for (const wallet of walletsOf(event)) this.wallets.add(wallet);
        const delegation = delegationOf(event);
        if (delegation) this.delegations.push(delegation);
      }
    } catch (error) {
      if (from === to || !isTooMuch(error)) throw error;
      const half = (to - from + 1n) / 2n;
      this.#longest = least(this.#longest, half);
      await this.#read(from, from + half - 1n);
      await this.#read(from + half, to);
    }
  }
}

const least = (a: bigint, b: bigint) => (a < b ? a : b);
