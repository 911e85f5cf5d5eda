import { type Address, type Hex, keccak256, numberToHex } from "viem";
import { readHeader, readSlot, readStorageRoot, UnknownFormError } from "../../client/src/proven-state.ts";
import { createTurnQueue } from "../slices.ts";
import { askNodes, chooseFailure, type RpcRequest } from "./ask-nodes.ts";
import { encodeHeader, type RpcBlock } from "./block-header.ts";
import { SharedReads } from "./shared-reads.ts";

/** A block that the index has. */
export type KnownBlock = { number: bigint; hash: Hex };

/** A block whose header hashes to its hash. */
export type ProvenBlock = KnownBlock & { chainId: number; header: Hex; stateRoot: Hex };

/** A word of a registry's storage, with the proofs of the account and of the slot. */
export type ProvenSlot = { value: bigint; account: readonly Hex[]; proof: readonly Hex[] };

type StorageProof = { proof: Hex[] };
type AccountProof = { accountProof: Hex[]; storageProof: StorageProof[] };

/** Remembered blocks and slots: some 40 MB, at 9 kB for a proof of a large trie. */
const MAX_BLOCKS = 256;
const MAX_SLOTS = 2_000;
/** Slots in one request: half a megabyte in a large trie. */
const SLOTS_PER_REQUEST = 64;
/** Maximum time for a read, by all nodes of a network. A proof takes two or three, within its own deadline. */
const READ_MS = 2_500;

/** A slot takes up to a millisecond to verify. */
const waitForTurn = createTurnQueue(1);

/**
 * Reads blocks and slots of registries from nodes. Each is verified before it is used or remembered, so one node can
 * prove what another has begun.
 */
export class StateReader {
  readonly #urls: ReadonlyMap<number, readonly string[]>;
  readonly #blocks = new SharedReads<ProvenBlock>(MAX_BLOCKS);
  readonly #slots = new SharedReads<ProvenSlot>(MAX_SLOTS);

  /** @param urls - of nodes, by chain id */
  constructor(urls: ReadonlyMap<number, readonly string[]>) {
    this.#urls = urls;
  }

  /**
   * Reads a block.
   * @param known - the newest block of the index. A node must have it: one on another fork is not asked.
   */
  readBlock(chainId: number, number: bigint, known: KnownBlock): Promise<ProvenBlock> {
    return this.#blocks.get(`${chainId} ${known.hash} ${number}`, () => {
      const urls = this.#urlsOf(chainId);
      if (number !== known.number) return readPastBlock(chainId, urls, number, known);
      return askNodes(urls, READ_MS, async (request) =>
        proveBlock(chainId, request, await readKnownBlock(request, known)),
      );
    });
  }

  /** Reads slots of a registry at a block. */
  readSlots(block: ProvenBlock, registry: Address, slots: readonly Hex[]): Promise<ProvenSlot[]> {
    const { chainId } = block;
    const prefix = `${chainId} ${block.hash} ${registry} `;
    const readUnknown = async (keys: string[]) => {
      const unknown = keys.map((key) => key.slice(prefix.length) as Hex);
      const parts: Hex[][] = [];
      while (unknown.length > 0) parts.push(unknown.splice(0, SLOTS_PER_REQUEST));
      const read = (part: Hex[]) =>
        askNodes(this.#urlsOf(chainId), READ_MS, (request) => proveSlots(request, block, registry, part));
      return (await Promise.all(parts.map(read))).flat();
    };
    return this.#slots.getAll(
      slots.map((slot) => prefix + slot),
      readUnknown,
    );
  }

  #urlsOf(chainId: number): readonly string[] {
    return this.#urls.get(chainId) ?? [];
  }
}

/** Reads a past block, on which all nodes that answer have to agree: one could have another past than the index. */
const readPastBlock = async (
  chainId: number,
  urls: readonly string[],
  number: bigint,
  known: KnownBlock,
): Promise<ProvenBlock> => {
  const read = async (request: RpcRequest) => {
    const [block, newest] = await Promise.all([number, known.number].map((one) => fetchBlock(request, one)));
    // By hash, a node returns blocks of other forks too.
    if (newest?.hash !== known.hash) throw new Error(`The node has another block ${known.number} than the index.`);
    if (!block) throw new Error(`The node does not have block ${number}.`);
    return proveBlock(chainId, request, block);
  };
  const answers = await Promise.allSettled(urls.map((url) => askNodes([url], READ_MS, read)));
  const blocks = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
  const [first] = blocks;
  if (!first) throw chooseFailure(answers.flatMap((answer) => (answer.status === "rejected" ? [answer.reason] : [])));
  if (first.number !== number) throw new Error(`The nodes return block ${first.number} instead of ${number}.`);
  if (blocks.some(({ hash }) => hash !== first.hash)) throw new Error(`The nodes have different blocks ${number}.`);
  return first;
};

const fetchBlock = (request: RpcRequest, number: bigint) =>
  request({ method: "eth_getBlockByNumber", params: [numberToHex(number), false] }) as Promise<RpcBlock | null>;

const readKnownBlock = async (request: RpcRequest, { number, hash }: KnownBlock): Promise<RpcBlock> => {
  const block = (await request({ method: "eth_getBlockByHash", params: [hash, false] })) as RpcBlock | null;
  if (block?.hash !== hash) throw new Error(`The node does not have block ${number} of the index.`);
  return block;
};

/** Encodes a block's header, or reads it where the network has fields of its own and the node returns it. */
const proveBlock = async (chainId: number, request: RpcRequest, block: RpcBlock): Promise<ProvenBlock> => {
  const { hash } = block;
  let header = encodeHeader(block);
  if (keccak256(header) !== hash) {
    const raw = await request({ method: "debug_getRawHeader", params: [block.number] }).catch((error) => {
      if (!isRefusal(error)) throw error;
    });
    if (typeof raw !== "string" || keccak256(raw as Hex) !== hash) {
      throw new UnknownFormError("The header of the block does not hash to its hash.");
    }
    header = raw as Hex;
  }
  return { chainId, hash, header, ...readHeader(header, hash) };
};

/** Codes of JSON-RPC and of wallets for a method that a node does not have, or that the account may not use. */
const UNSUPPORTED = [-32_601, -32_004, 4_200];

/** True if the node itself has answered that it does not do this: nothing was lost on the way, nor was it too much. */
const isRefusal = ({ code }: { code?: unknown }): boolean => UNSUPPORTED.some((known) => known === code);

const proveSlots = async (
  request: RpcRequest,
  { number, stateRoot }: ProvenBlock,
  registry: Address,
  slots: readonly Hex[],
): Promise<ProvenSlot[]> => {
  const answer = await request({ method: "eth_getProof", params: [registry, slots, numberToHex(number)] });
  const { accountProof, storageProof } = answer as AccountProof;
  const root = readStorageRoot(stateRoot, registry, accountProof);
  const proven: ProvenSlot[] = [];
  // A node may write a slot without leading zeros, but keeps the order.
  for (const [place, slot] of slots.entries()) {
    await waitForTurn();
    const { proof } = storageProof[place] ?? {};
    if (!proof) throw new Error("The node does not prove every slot.");
    // The value beside it proves nothing.
    proven.push({ value: readSlot(root, slot, proof), account: accountProof, proof });
  }
  return proven;
};
