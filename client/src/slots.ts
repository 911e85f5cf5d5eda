import { concatHex, hexToBigInt, keccak256, numberToHex, pad } from "viem";
import { BALANCES, SATISFIED_BY } from "./checks.ts";
import type { Hex, Question } from "./questions.ts";
import { toBytes32 } from "./registries.ts";

// Where the registries keep what decides a check: words of 32 bytes, by their slot.

/** Words of a registry's storage, by slot. */
export type Words = ReadonlyMap<Hex, bigint>;

/** What a registry keeps in a slot. */
export type Place = {
  slot: Hex;
  /** A delegation and its amount, or how often a vault has revoked everything, or what its delegate has. */
  part: "delegation" | "amount" | "vaultVersion" | "delegateVersion";
  /** Of the delegation: `ALL`, `CONTRACT`, … */
  type?: string;
  /** Of a delegation in v2. */
  rights?: Hex;
};

/** The answer and the places that prove it, or the slots without which there is none. */
export type Decision = { answer: boolean | bigint; places: Place[] } | { missing: Hex[] };

const MAX_UINT256 = 2n ** 256n - 1n;
const ADDRESS_BITS = 2n ** 160n - 1n;
/** Has the place of a vault in a delegation that v2 knows as revoked. */
const REVOKED = 1n;

const word = (value: Hex | bigint | number): Hex =>
  typeof value === "string" ? pad(value) : numberToHex(value, { size: 32 });
const hashWords = (...values: (Hex | bigint | number)[]): Hex => keccak256(concatHex(values.map(word)));
/** Adds to a slot. Slots wrap around, as the EVM's arithmetic does. */
const plus = (slot: Hex, words: bigint): Hex => word((hexToBigInt(slot) + words) & MAX_UINT256);

/** The contract and the token id of a delegation of a type, as far as it has them. */
const scopeOf = (type: string, { contract, tokenId }: Question): { contract?: Hex; tokenId?: Hex } => {
  if (type === "ALL") return {};
  if (contract === undefined) throw new RangeError("The check needs a contract.");
  if (type === "CONTRACT" || type === "ERC20") return { contract };
  if (tokenId === undefined) throw new RangeError("The check needs a token id.");
  return { contract, tokenId: word(BigInt(tokenId)) };
};

/** The types of the delegations that satisfy a check, the broadest first. */
export const typesOf = ({ registry, check }: Pick<Question, "registry" | "check">): readonly string[] => {
  const types = Object.hasOwn(SATISFIED_BY, registry) && Object.hasOwn(SATISFIED_BY[registry], check);
  if (!types) throw new RangeError(`There is no check ${check} of ${registry}.`);
  return SATISFIED_BY[registry][check] ?? [];
};

/** Decides a check by some words of its registry's storage. One active delegation is enough for a broad answer. */
export const decide = (question: Question, words: Words): Decision =>
  question.registry === "v1" ? decideV1(question, words) : decideV2(question, words);

const missingOf = (places: readonly Place[], words: Words): Hex[] =>
  places.flatMap(({ slot }) => (words.has(slot) ? [] : slot));

/** True if the word of a delegation says that it is active. */
export const isActive = (registry: Question["registry"], word: bigint): boolean =>
  registry === "v1" ? word !== 0n : (word & ADDRESS_BITS) > REVOKED;

/** v2: slot 0 has the words of a delegation by its hash. The first has its vault while it is active, word 4 its amount. */
const decideV2 = (question: Question, words: Words): Decision => {
  const { check, vault, delegate } = question;
  const asked = toBytes32(question.rights ?? "");
  const allRights = [...new Set([toBytes32(""), asked])];
  const locate = (type: string) =>
    allRights.map((rights): Place => {
      const { contract = "0x", tokenId = "0x" } = scopeOf(type, question);
      const identity = hexToBigInt(keccak256(concatHex([rights, vault, delegate, contract, tokenId])));
      const slot = hashWords(((identity << 8n) & MAX_UINT256) | BigInt(V2_TYPES.indexOf(type)), 0);
      return { slot, part: "delegation", type, rights };
    });
  const types = typesOf(question);
  const isBalance = BALANCES.includes(check);
  const broad = types.filter((type) => !isBalance || type === "ALL" || type === "CONTRACT").flatMap(locate);
  // A revoked delegation has no amount left.
  const amounts = (isBalance ? locate(types.at(-1) ?? "") : []).map(
    (place): Place => ({ ...place, slot: plus(place.slot, 4n), part: "amount" }),
  );

  const active = broad.find(({ slot }) => isActive("v2", words.get(slot) ?? 0n));
  if (active) return { answer: isBalance ? MAX_UINT256 : true, places: [active] };
  const places = [...broad, ...amounts];
  const missing = missingOf(places, words);
  if (missing.length > 0) return { missing };
  if (!isBalance) return { answer: false, places };
  const largest = amounts.map(({ slot }) => words.get(slot) ?? 0n).reduce((a, b) => (a > b ? a : b), 0n);
  return { answer: largest, places };
};

/** By their numbers. */
const V2_TYPES = ["NONE", "ALL", "CONTRACT", "ERC721", "ERC20", "ERC1155"];

/**
 * v1: slot 0 has a set of hashes for each version of a vault, slot 1 the version of a vault, slot 2 of a delegate.
 * Where the hashes of a check are depends on both versions.
 */
const decideV1 = (question: Question, words: Words): Decision => {
  const { vault, delegate } = question;
  const versions: readonly [Place, Place] = [
    { slot: hashWords(vault, 1), part: "vaultVersion" },
    { slot: hashWords(delegate, hashWords(vault, 2)), part: "delegateVersion" },
  ];
  const [vaultVersion, delegateVersion] = versions.map(({ slot }) => words.get(slot));
  if (vaultVersion === undefined || delegateVersion === undefined) return { missing: missingOf(versions, words) };
  // The positions of a set's hashes follow the hashes themselves.
  const positions = plus(hashWords(vaultVersion, hashWords(vault, 0)), 1n);
  const members = typesOf(question).map((type): Place => {
    const scope = Object.values(scopeOf(type, question));
    const slot = hashWords(hashWords(delegate, vault, ...scope, vaultVersion, delegateVersion), positions);
    return { slot, part: "delegation", type };
  });
  const member = members.find(({ slot }) => isActive("v1", words.get(slot) ?? 0n));
  if (member) return { answer: true, places: [...versions, member] };
  const missing = missingOf(members, words);
  return missing.length > 0 ? { missing } : { answer: false, places: [...versions, ...members] };
};
