import { hash, randomInt } from "node:crypto";
import { crc32 } from "node:zlib";

// An API key: delreg_ + 32 random characters + 6 characters of checksum. The prefix identifies it to people and to
// scanners for leaked secrets. The checksum distinguishes a typo from an unknown key without a database lookup.

const PREFIX = "delreg_";
const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** 190 random bits. Eight characters are public: 2^47 prefixes, and 142 bits that stay secret. */
const RANDOM_LENGTH = 32;
const CHECKSUM_LENGTH = 6;
const SHOWN_LENGTH = PREFIX.length + 8;
/** Each attempt fails if another key has the prefix: among a billion keys, once in 200,000 times. */
const MAX_ATTEMPTS = 10;
const PATTERN = new RegExp(`^${PREFIX}[0-9A-Za-z]{${RANDOM_LENGTH + CHECKSUM_LENGTH}}$`);

export const generateKey = (): string => {
  const random = Array.from({ length: RANDOM_LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join("");
  return withChecksum(`${PREFIX}${random}`);
};

/** The stored part of a key. */
export type StoredKey = { prefix: string; hash: string };

/**
 * Generates keys until one can be stored.
 * @param store - returns false if another key has the prefix
 * @returns null after several attempts
 */
export const generateStoredKey = async (store: (key: StoredKey) => Promise<boolean>): Promise<string | null> => {
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    const key = generateKey();
    if (await store({ prefix: prefixOf(key), hash: hashKey(key) })) return key;
  }
  return null;
};

/** Returns true if a text begins like a key to a reader, in letters of any case and width. */
export const looksLikeKey = (text: string): boolean =>
  text.normalize("NFKC").trim().toLowerCase().startsWith(PREFIX.slice(0, -1));

/** Checks the form of a key, including its checksum. */
export const isWellFormed = (text: string): boolean =>
  PATTERN.test(text) && withChecksum(text.slice(0, -CHECKSUM_LENGTH)) === text;

/** Hashes a key for storage. A key is random enough that nobody can reverse a plain hash. */
export const hashKey = (key: string): string => hash("sha256", key);

/** Returns the public part of a key. */
export const prefixOf = (key: string): string => key.slice(0, SHOWN_LENGTH);

const withChecksum = (text: string): string => {
  let rest = crc32(text);
  let checksum = "";
  while (checksum.length < CHECKSUM_LENGTH) {
    checksum = `${ALPHABET[rest % ALPHABET.length]}${checksum}`;
    rest = Math.floor(rest / ALPHABET.length);
  }
  return `${text}${checksum}`;
};
