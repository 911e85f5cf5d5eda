import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { generateKey, hashKey, isWellFormed, prefixOf } from "../../api/keys/api-key.ts";
import { PROPERTY_RUNS } from "../support/random.ts";

// Keys are used for years, and scanners look for leaked ones: the format must not change. The expectations are computed
// here, without the tested code.

const FORM = /^delreg_[0-9A-Za-z]{38}$/;
const ALPHABET = [..."0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"];

/** CRC-32 as in zip and PNG, bit by bit. */
const crc32 = (text: string): number => {
  let crc = 0xffff_ffff;
  for (const byte of Buffer.from(text)) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb8_8320 : 0);
  }
  return (crc ^ 0xffff_ffff) >>> 0;
};

/** Six digits of base 62, the highest first. */
const checksumOf = (text: string): string => {
  const value = BigInt(crc32(text));
  return [5n, 4n, 3n, 2n, 1n, 0n].map((power) => ALPHABET[Number((value / 62n ** power) % 62n)]).join("");
};

/** Any possible key. */
const anyKey = fc
  .string({ unit: fc.constantFrom(...ALPHABET), minLength: 32, maxLength: 32 })
  .map((random) => `delreg_${random}${checksumOf(`delreg_${random}`)}`);

const positions = (key: string) => [...key].map((_, position) => position);

describe("generateKey()", () => {
  const keys = Array.from({ length: 10_000 }, generateKey);

  test("returns delreg_, 32 characters, and the CRC-32 of these in 6 characters of base 62", () => {
    expect(crc32("123456789"), "the check value of CRC-32").toBe(0xcbf4_3926);
    for (const key of keys) {
      expect(key).toMatch(FORM);
      expect(key.slice(-6)).toBe(checksumOf(key.slice(0, -6)));
      expect(isWellFormed(key), key).toBe(true);
    }
  });

  test("returns a new key each time, and rarely the same prefix", () => {
    expect(new Set(keys).size).toBe(keys.length);
    // There are 62^8 prefixes: of 10,000, one repeats once in four million times.
    expect(new Set(keys.map(prefixOf)).size).toBeGreaterThanOrEqual(keys.length - 1);
  });

  test("returns at least 128 random bits that neither prefix nor checksum reveals", () => {
    const [key = ""] = keys;
    expect(key.startsWith(prefixOf(key))).toBe(true);
    expect(prefixOf(key)).toMatch(/^delreg_[0-9A-Za-z]{8}$/);
    const secret = key.length - prefixOf(key).length - 6;
    expect(secret * Math.log2(ALPHABET.length)).toBeGreaterThanOrEqual(128);
  });

  test("returns every character at every position equally often", () => {
    // By chance, chi-square with 61 degrees of freedom exceeds 165 once in ten billion times.
    const chiSquare = (characters: readonly string[]) => {
      const counts = new Map(ALPHABET.map((character) => [character, 0]));
      for (const character of characters) counts.set(character, (counts.get(character) ?? 0) + 1);
      const expected = characters.length / ALPHABET.length;
      return [...counts.values()].reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
    };
    for (let place = 0; place < 32; place++) {
      const characters = keys.map((key) => key.charAt("delreg_".length + place));
      expect(chiSquare(characters), `place ${place}`).toBeLessThan(165);
      // Characters are independent of their neighbours.
      const steps = keys.map((key) => {
        const at = (index: number) => ALPHABET.indexOf(key.charAt("delreg_".length + index));
        return ALPHABET[(at((place + 1) % 32) - at(place) + 62) % 62] ?? "";
      });
      expect(chiSquare(steps), `after place ${place}`).toBeLessThan(165);
    }
  });
});

test.for([
  "delreg_000000000000000000000000000000001L8raU",
  "delreg_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef4NUEqv",
  "delreg_zyxwvutsrqponmlkjihgfedcba9876544Z7kW6",
])("isWellFormed() accepts the key %s in every version", (key) => {
  expect(isWellFormed(key)).toBe(true);
});

describe("isWellFormed() rejects", () => {
  const AROUND = [" ", "\t", "\n", "\r\n", "\0", "\u00a0", "\ufeff", '"', "'", "`", "<", ">", ",", ";", "=", "/"];
  const PRINTABLE = Array.from({ length: 127 - 32 }, (_, index) => String.fromCharCode(32 + index));
  const insert = (key: string, at: number, text: string) => `${key.slice(0, at)}${text}${key.slice(at)}`;

  test.for<[string, (key: string) => string[]]>([
    [
      "a key with another character, at every position",
      (key) =>
        positions(key).flatMap((at) => PRINTABLE.map((other) => `${key.slice(0, at)}${other}${key.slice(at + 1)}`)),
    ],
    [
      "a key with two neighbours swapped",
      (key) => positions(key).map((at) => insert(key.slice(0, at) + key.slice(at + 1), at + 1, key.charAt(at))),
    ],
    ["a part of a key", (key) => positions(key).flatMap((at) => [key.slice(0, at), key.slice(at + 1)])],
    ["a key with a character left out", (key) => positions(key).map((at) => `${key.slice(0, at)}${key.slice(at + 1)}`)],
    [
      "a key with an additional character, at every position",
      (key) => [...positions(key), key.length].flatMap((at) => [...ALPHABET, "_"].map((more) => insert(key, at, more))),
    ],
    [
      "a key with other characters around it",
      (key) => AROUND.flatMap((text) => [`${text}${key}`, `${key}${text}`, `${text}${key}${text}`]),
    ],
    [
      "a key beside other words or keys",
      (key) => [`Bearer ${key}`, `${key}${key}`, `${key}, ${key}`, `${key}\n${key}`],
    ],
    [
      "a key in another case, or with another beginning or none",
      (key) => [
        key.toUpperCase(),
        key.toLowerCase(),
        key.slice("delreg_".length),
        ...["delreg-", "dk_live", "DELREG_"].map((beginning) => key.replace("delreg_", beginning)),
      ],
    ],
  ])("%s", ([, textsOf]) => {
    fc.assert(
      fc.property(anyKey, (key) => {
        expect(isWellFormed(key), key).toBe(true);
        for (const text of textsOf(key)) {
          if (text !== key && isWellFormed(text)) expect.fail(`${JSON.stringify(text)} passes for ${key}`);
        }
      }),
    );
  });

  test("any other text, even of the same form, unless its checksum matches", () => {
    const looksLikeKey = fc.string({ unit: fc.constantFrom(...ALPHABET), minLength: 38, maxLength: 38 });
    fc.assert(
      fc.property(looksLikeKey, (text) => {
        const key = `delreg_${text}`;
        expect(isWellFormed(key), key).toBe(checksumOf(key.slice(0, -6)) === key.slice(-6));
      }),
      { numRuns: PROPERTY_RUNS },
    );
    fc.assert(fc.property(fc.string({ unit: "binary", maxLength: 100 }), (text) => !isWellFormed(text)));
  });
});

test("a leaked key can be found by its format", () => {
  const key = generateKey();
  const places = [
    `{"headers":{"X-API-KEY":"${key}"}}`,
    `API_KEY=${key}\nPORT=8080`,
    `curl -H 'X-API-KEY: ${key}' https://example.org`,
    `https://example.org/?key=${key}&limit=1`,
    `const key = \`${key}\`;`,
  ];
  for (const place of places) {
    const found = place.match(/\bdelreg_[0-9A-Za-z]{38}\b/g);
    expect(found, place).toEqual([key]);
  }
});

test("hashKey() returns the SHA-256 of the whole key in hex", () => {
  fc.assert(
    fc.property(anyKey, (key) => {
      expect(hashKey(key)).toBe(createHash("sha256").update(key, "utf8").digest("hex"));
    }),
  );
  expect(hashKey("abc")).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
});
