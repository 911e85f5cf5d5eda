import { type Address, type Hex, keccak256, numberToHex } from "viem";
import { NoRegistryError, type Proof, verifyProof } from "../../client/src/proof.ts";
import type { Question } from "../../client/src/questions.ts";
import { decide } from "../../client/src/slots.ts";
import { encodeHeader, type RpcBlock } from "./block-header.ts";

/** Sends a JSON-RPC request to a node. */
export type RpcRequest = (request: { method: string; params: readonly unknown[] }) => Promise<unknown>;

/** A block that the index has. */
export type KnownBlock = { number: bigint; hash: Hex };

/** The header of a network's blocks does not hash to their hash: there are no proofs of it. */
export class UnprovableNetworkError extends Error {}

/** The block is older than the registry. */
export class UnprovableBlockError extends Error {}

type StorageProof = { key: Hex; value: Hex; proof: Hex[] };
type AccountProof = { accountProof: Hex[]; storageProof: StorageProof[] };

/** Rounds of reading slots: v1's memberships depend on its versions. */
const MAX_ROUNDS = 2;

/**
 * Proves a check at a block, and verifies the proof as a client does.
 * @param known - the newest block of the index. The node's chain must have it: an older block of that chain is then the
 * index's too.
 * @throws if the node has another chain, lacks the state, or returns what is no proof
 */
export const proveCheck = async (
  request: RpcRequest,
  question: Question,
  registry: Address,
  { block: number, known }: { block: bigint; known: KnownBlock },
): Promise<Proof> => {
  const readBlock = async (wanted: bigint): Promise<RpcBlock> => {
    const block = await request({ method: "eth_getBlockByNumber", params: [numberToHex(wanted), false] });
    if (!block) throw new Error(`The node does not have block ${wanted}.`);
    return block as RpcBlock;
  };
  const readSlots = async (slots: readonly Hex[]) =>
    (await request({ method: "eth_getProof", params: [registry, slots, numberToHex(number)] })) as AccountProof;

  const words = new Map<Hex, bigint>();
  const found = new Map<Hex, StorageProof>();
  /** Returns the proof of the registry's account. */
  const readMissing = async (): Promise<Hex[]> => {
    let account: Hex[] = [];
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const decision = decide(question, words);
      if (!("missing" in decision)) break;
      const { accountProof, storageProof } = await readSlots(decision.missing);
      // A node may write a slot without leading zeros, but keeps the order.
      decision.missing.forEach((slot, place) => {
        const proof = storageProof[place];
        if (!proof) return;
        found.set(slot, proof);
        words.set(slot, BigInt(proof.value));
      });
      account = accountProof;
    }
    return account;
  };
  const [block, newest, account] = await Promise.all([
    readBlock(number),
    number === known.number ? null : readBlock(known.number),
    readMissing(),
  ]);
  if ((newest ?? block).hash !== known.hash) throw new Error("The node and the index have different blocks.");

  const header = await findHeader(request, block);
  const decision = decide(question, words);
  if ("missing" in decision) throw new Error("The node does not return every slot.");
  const { chainId, registry: version, check, ...parameters } = question;
  const proof: Proof = {
    result: typeof decision.answer === "bigint" ? String(decision.answer) : decision.answer,
    chainId,
    registry: version,
    check,
    parameters,
    block: { number: Number(number), hash: block.hash, header },
    account: { address: registry, proof: account },
    storage: decision.slots.map((slot) => ({
      slot,
      value: numberToHex(words.get(slot) ?? 0n, { size: 32 }),
      proof: found.get(slot)?.proof ?? [],
    })),
  };
  const trusted = { hash: block.hash, chainId, addresses: { [version]: registry } };
  try {
    verifyProof(proof, trusted);
  } catch (error) {
    const isTooOld = error instanceof Error && error.cause instanceof NoRegistryError;
    throw isTooOld ? new UnprovableBlockError(error.message) : error;
  }
  return proof;
};

/** Encodes a block's header, or reads it where the network has fields of its own and the node returns it. */
const findHeader = async (request: RpcRequest, block: RpcBlock): Promise<Hex> => {
  const encoded = encodeHeader(block);
  if (keccak256(encoded) === block.hash) return encoded;
  const raw = await request({ method: "debug_getRawHeader", params: [block.number] }).catch(() => null);
  if (typeof raw === "string" && keccak256(raw as Hex) === block.hash) return raw as Hex;
  throw new UnprovableNetworkError("The header of the block does not hash to its hash.");
};
