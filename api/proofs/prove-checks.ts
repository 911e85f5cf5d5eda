import { type Address, type Hex, numberToHex } from "viem";
import { type Proof, verifyProof } from "../../client/src/proof.ts";
import type { Question } from "../../client/src/questions.ts";
import { decide } from "../../client/src/slots.ts";
import { createTurnQueue } from "../slices.ts";
import type { ProvenBlock, ProvenSlot, StateReader } from "./state-reader.ts";

/** Rounds of reading slots: v1's memberships depend on its versions. */
const MAX_ROUNDS = 2;

/** A proof takes some milliseconds to verify. */
const waitForTurn = createTurnQueue(1);

/**
 * Proves checks of one registry at a block, in their order, and verifies each proof as a client does.
 * @throws if no node has the state of the block, and a NoRegistryError if the block is older than the registry
 */
export const proveChecks = async (
  state: StateReader,
  questions: readonly Question[],
  registry: Address,
  block: ProvenBlock,
): Promise<Proof[]> => {
  const found = new Map<Hex, ProvenSlot>();
  const words = new Map<Hex, bigint>();
  const decideAll = () => questions.map((question) => decide(question, words));
  const missing = () => decideAll().flatMap((decision) => ("missing" in decision ? decision.missing : []));
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const slots = [...new Set(missing())];
    if (slots.length === 0) break;
    const proven = await state.readSlots(block, registry, slots);
    for (const [place, slot] of slots.entries()) {
      const read = proven[place];
      if (!read) throw new Error("The node does not return every slot.");
      found.set(slot, read);
      words.set(slot, read.value);
    }
  }
  const proofs: Proof[] = [];
  for (const question of questions) {
    await waitForTurn();
    const proof = toProof(question, registry, block, found, words);
    verifyProof(proof, {
      hash: block.hash,
      chainId: block.chainId,
      check: question,
      addresses: { [question.registry]: registry },
    });
    proofs.push(proof);
  }
  return proofs;
};

const toProof = (
  question: Question,
  registry: Address,
  { number, hash, header }: ProvenBlock,
  found: ReadonlyMap<Hex, ProvenSlot>,
  words: ReadonlyMap<Hex, bigint>,
): Proof => {
  const decision = decide(question, words);
  if ("missing" in decision) throw new Error("The node does not return every slot.");
  const { answer } = decision;
  const storage = decision.places.map(({ slot }) => {
    const read = found.get(slot);
    if (!read) throw new Error("A slot that decides the check was not read.");
    return { slot, value: numberToHex(read.value, { size: 32 }), proof: read.proof, account: read.account };
  });
  const { chainId, registry: version, check, ...parameters } = question;
  return {
    result: typeof answer === "bigint" ? String(answer) : answer,
    chainId,
    registry: version,
    check,
    parameters,
    block: { number: Number(number), hash, header },
    account: { address: registry.toLowerCase(), proof: storage[0]?.account ?? [] },
    storage: storage.map(({ account: _, ...slot }) => slot),
  };
};
