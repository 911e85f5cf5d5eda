import { hash, randomInt } from "node:crypto";
import { crc32 } from "node:zlib";

// An API key: delreg_ + 32 random characters + 6 characters of checksum. The prefix says what it is, to
// people and to programs that look for leaked secrets; the checksum tells a typo from a key that nobody
// has, without a look into the database.

const PREFIX = "delreg_";
const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** 190 random bits: with the four characters that everybody may see, 166 stay secret. */
const RANDOM_LENGTH = 32;
const CHECKSUM_LENGTH = 6;
const SHOWN_LENGTH = PREFIX.length + 4;
const PATTERN = new RegExp(`^${PREFIX}[0-9A-Za-z]{${RANDOM_LENGTH + CHECKSUM_LENGTH}}$`);

/** A new key. */
export const generateKey = (): string => {
  const random = Array.from({ length: RANDOM_LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join("");
  return withChecksum(`${PREFIX}${random}`);
};

/** Whether a text has the form of a key, checksum included. */
export const isWellFormed = (text: string): boolean =>
  PATTERN.test(text) && withChecksum(text.slice(0, -CHECKSUM_LENGTH)) === text;

/** What is stored of a key. It is random enough that a plain hash cannot be turned round. */
export const hashKey = (key: string): string => hash("sha256", key);

/** The part of a key that may be shown. */
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
