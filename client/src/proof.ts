import { orAborted } from "./abortable.ts";
import { readBlockHeaders } from "./block.ts";
import type { ProofReader } from "./client.ts";
import { readHash, readHeader, readHex, readSlot, readStorageRoot } from "./proven-state.ts";
import {
  type Address,
  type AnyCheck,
  type Check,
  type Hex,
  type Question,
  toBlockParameters,
  toQuestion,
} from "./questions.ts";
import { type Addresses, findRegistry, toBytes32 } from "./registries.ts";
import { notAnAnswer, RegistryError } from "./registry-error.ts";
import { decide, isActive, type Place, typesOf } from "./slots.ts";
import { describeFailure } from "./transport.ts";

export type { Place } from "./slots.ts";

/** An answer to a check with the proof of its registry's state, as the service returns it with `proof=true`. */
export type Proof = {
  /** True, false, or the digits of a balance. */
  result: boolean | string;
  chainId: number;
  registry: string;
  check: string;
  /** `delegate`, `vault`, and what else the check takes: the token id in digits, rights as bytes32. */
  parameters: Readonly<Record<string, string>>;
  block: { number: number; hash: string; header: string };
  account: { address: string; proof: readonly string[] };
  storage: readonly { slot: string; value: string; proof: readonly string[] }[];
};

export type Trusted = {
  /** The hash of the proof's block, from a source that you trust: your own node, a light client, two providers. */
  hash: Hex;
  /** The network that the hash is of; 1, Ethereum, by default. */
  chainId?: number;
  /** The question that you asked. Without it, compare `question` yourself: a proof may be of any other. */
  check?: Check | Question;
  /** Addresses of registries elsewhere. */
  addresses?: Partial<Addresses> | undefined;
};

export type Proven = {
  value: boolean | bigint;
  /** The question, with lower-case addresses and rights as bytes32. */
  question: Question;
  /** The timestamp is in seconds. */
  block: { number: bigint; hash: Hex; timestamp: bigint };
  /** The words of the registry's storage that decide the answer, by slot. */
  words: ReadonlyMap<Hex, bigint>;
  /** The same with their meaning. */
  places: readonly (Place & { word: bigint; isActive?: boolean })[];
};

/**
 * Verifies an answer with the hash of its block alone, and returns it. The slots are those that the question itself
 * leads to, never the answer's. Throws a RegistryError unless all of it is proven.
 */
export const verifyProof = (proof: Proof, trusted: Trusted): Proven => {
  try {
    return verify(proof, trusted);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw new RegistryError(`The answer is not proven: ${message}`, { isRetryable: false, cause: error });
  }
};

export type ProofOptions = {
  /**
   * How old the block of an answer may be, unless the check names its number; an hour by default. A service could
   * otherwise prove what was right before a delegation was revoked.
   */
  maxAgeSeconds?: number;
  /** Addresses of registries elsewhere, by chain id. */
  addresses?: Readonly<Record<number, Partial<Addresses>>>;
};

/**
 * For `createClient({ proofs })`: asks for each answer to a check with its proof, and verifies it. Each counts as ten
 * requests, and none are sent together. That a block is final is the service's word: only your source can tell.
 * @param trustedHash - finds the hash of a block, from a source that you trust
 */
export const requireProofs =
  (
    trustedHash: (chainId: number, block: bigint) => Hex | Promise<Hex>,
    { maxAgeSeconds = 3_600, addresses = {} }: ProofOptions = {},
  ): ProofReader =>
  async (transport, question, at, signal) => {
    const { registry, check, chainId, ...parameters } = question;
    const query = { ...parameters, chainId: String(chainId), ...toBlockParameters(at), proof: "true" };
    const path = `/registry/${registry}/check/${check}?${new URLSearchParams(query)}`;
    const { json, headers } = await transport.send({ path, cost: COST, signal });
    const proof = json as Proof;
    const block = readBlockHeaders(at, headers);
    const find = () => trustedHash(chainId, block.number);
    const hash = await orAborted(findHash(find), signal);
    const proven = verifyProof(proof, { hash, chainId, check: question, addresses: addresses[chainId] });
    if (proven.block.number !== block.number) throw notAnAnswer({ block: proven.block.number });
    const isChosenByService = at.block === undefined || at.block === "finalized";
    const age = Math.round(Date.now() / 1000) - Number(proven.block.timestamp);
    if (isChosenByService && age > maxAgeSeconds) {
      const message = `The answer is proven at block ${block.number}, which is ${age} seconds old: more than ${maxAgeSeconds}.`;
      throw new RegistryError(message, { isRetryable: true });
    }
    return { value: proven.value, block };
  };

/** A failure of the source is no answer, and may pass: the node may not have the block yet. */
const findHash = async (find: () => Hex | Promise<Hex>): Promise<Hex> => {
  try {
    return await find();
  } catch (error) {
    if (error instanceof RegistryError) throw error;
    throw new RegistryError(`The trusted hash cannot be found: ${describeFailure(error)}`, { cause: error });
  }
};

/** Requests that a proof counts as. */
const COST = 10;

const verify = (proof: Proof, { hash, chainId = 1, check, addresses }: Trusted): Proven => {
  const question = readQuestion(proof);
  if (question.chainId !== chainId) throw new Error(`It is about chain ${question.chainId}, not ${chainId}.`);
  if (check && nameQuestion(question) !== nameQuestion(normalise(toQuestion(check as AnyCheck)))) {
    throw new Error("It answers another question than the one that was asked.");
  }
  const trustedHash = readHash(hash);
  const { number, timestamp, stateRoot } = readHeader(readHex(proof.block.header), trustedHash);
  if (readHash(proof.block.hash) !== trustedHash) throw new Error("It names another block than the trusted one.");
  if (proof.block.number !== Number(number)) throw new Error(`It names block ${proof.block.number}, not ${number}.`);

  const registry = findRegistry(chainId, question.registry, addresses).toLowerCase() as Address;
  if (readHex(proof.account.address) !== registry) throw new Error(`It is not about the registry, ${registry}.`);
  const storageRoot = readStorageRoot(stateRoot, registry, proof.account.proof);

  const words = new Map<Hex, bigint>();
  for (const { slot, value, proof: nodes } of proof.storage) {
    const key = readHash(slot);
    const word = readSlot(storageRoot, key, nodes);
    if (BigInt(readHash(value)) !== word) throw new Error(`Slot ${key} has another value.`);
    words.set(key, word);
  }
  const decision = decide(question, words);
  if ("missing" in decision) throw new Error(`It lacks ${decision.missing.length} slots that decide the check.`);
  const { answer, places } = decision;
  if (places.length !== proof.storage.length) throw new Error("It has slots that do not decide the check.");
  if (proof.result !== (typeof answer === "bigint" ? String(answer) : answer)) {
    throw new Error(`The registry answers ${answer}, not ${proof.result}.`);
  }
  const explain = (place: Place) => {
    const word = words.get(place.slot) ?? 0n;
    return { ...place, word, ...(place.part === "delegation" && { isActive: isActive(question.registry, word) }) };
  };
  return {
    value: answer,
    question,
    block: { number, hash: trustedHash, timestamp },
    words,
    places: places.map(explain),
  };
};

/** Reads the question of a proof. It has the parameters of its check, and no others. */
const readQuestion = ({ chainId, registry, check, parameters }: Proof): Question => {
  // A list with one text is that text here and something else there, where it is compared.
  for (const text of [registry, check, ...Object.values(parameters)]) {
    if (typeof text !== "string") throw new Error(`${JSON.stringify(text)} is no part of a question.`);
  }
  const asked = { chainId, registry, check } as Question;
  const narrowest = typesOf(asked).at(-1) ?? "";
  const names = [
    "delegate",
    "vault",
    ...(narrowest === "ALL" ? [] : ["contract"]),
    ...(["TOKEN", "ERC721", "ERC1155"].includes(narrowest) ? ["tokenId"] : []),
    ...(registry === "v2" ? ["rights"] : []),
  ];
  const given = Object.keys(parameters);
  if (given.length !== names.length || !names.every((name) => given.includes(name))) {
    throw new Error(`The parameters of its check are ${names.join(", ")}.`);
  }
  return normalise({ ...parameters, ...asked });
};

/** Writes each parameter in one form. */
const normalise = ({ delegate, vault, contract, tokenId, rights, ...asked }: Question): Question => ({
  ...asked,
  delegate: readAddress(delegate),
  vault: readAddress(vault),
  ...(contract !== undefined && { contract: readAddress(contract) }),
  ...(tokenId !== undefined && { tokenId: readTokenId(tokenId) }),
  ...(asked.registry === "v2" && { rights: toBytes32(rights ?? "") }),
});

const readAddress = (text: string): Address => {
  const hex = readHex(text);
  if (hex.length !== 42) throw new Error(`${hex.slice(0, 80)} is not an address.`);
  return hex;
};

const readTokenId = (text: string): string => {
  if (!/^\d{1,78}$/.test(text) || BigInt(text) >= 2n ** 256n) throw new Error(`${text} is not a token id.`);
  return String(BigInt(text));
};

const nameQuestion = ({ chainId, registry, check, delegate, vault, contract, tokenId, rights }: Question): string =>
  [chainId, registry, check, delegate, vault, contract, tokenId, rights].join();
