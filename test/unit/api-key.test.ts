import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { generateKey, hashKey, isWellFormed, prefixOf } from "../../api/keys/api-key.ts";

// The format is a promise: keys are in use for years, and others look for leaked ones. All that is
// expected here is worked out anew, without the code that is tested.

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

/** Any key that could ever be made. */
const anyKey = fc
  .string({ unit: fc.constantFrom(...ALPHABET), minLength: 32, maxLength: 32 })
  .map((random) => `delreg_${random}${checksumOf(`delreg_${random}`)}`);

/** Every key is well-formed, and none of these texts that are made of it is. */
const expectTold = (textsOf: (key: string) => readonly string[]) => {
  fc.assert(
    fc.property(anyKey, (key) => {
      expect(isWellFormed(key), key).toBe(true);
      for (const text of textsOf(key)) {
        if (text !== key && isWellFormed(text)) expect.fail(`${JSON.stringify(text)} passes for ${key}`);
      }
    }),
  );
};

const positions = (key: string) => [...key].map((_, position) => position);

describe("a new key", () => {
  const keys = Array.from({ length: 10_000 }, generateKey);

  test("is delreg_, 32 characters and 6 of checksum, which is the CRC-32 of what is before it in base 62", () => {
    expect(crc32("123456789"), "the check value of CRC-32").toBe(0xcbf4_3926);
    for (const key of keys) {
      expect(key).toMatch(FORM);
      expect(key.slice(-6)).toBe(checksumOf(key.slice(0, -6)));
      expect(isWellFormed(key), key).toBe(true);
    }
  });

  test("is another one each time, and begins like hardly any other", () => {
    expect(new Set(keys).size).toBe(keys.length);
    // The beginnings are 62^4: of 10,000, some three repeat.
    expect(new Set(keys.map(prefixOf)).size).toBeGreaterThan(keys.length - 50);
  });

  test("has 160 random bits or more that its shown beginning and its checksum do not tell", () => {
    const [key = ""] = keys;
    expect(key.startsWith(prefixOf(key))).toBe(true);
    expect(prefixOf(key)).toMatch(/^delreg_[0-9A-Za-z]{4}$/);
    const secret = key.length - prefixOf(key).length - 6;
    expect(secret * Math.log2(ALPHABET.length)).toBeGreaterThanOrEqual(160);
  });

  test("has every character at every place equally often", () => {
    // Chi-square with 61 degrees of freedom: once in ten billion times it is above 165 by chance.
    const chiSquare = (characters: readonly string[]) => {
      const counts = new Map(ALPHABET.map((character) => [character, 0]));
      for (const character of characters) counts.set(character, (counts.get(character) ?? 0) + 1);
      const expected = characters.length / ALPHABET.length;
      return [...counts.values()].reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
    };
    for (let place = 0; place < 32; place++) {
      const characters = keys.map((key) => key.charAt("delreg_".length + place));
      expect(chiSquare(characters), `place ${place}`).toBeLessThan(165);
      // The same again for what comes after it: no character says anything about the next one.
      const steps = keys.map((key) => {
        const at = (index: number) => ALPHABET.indexOf(key.charAt("delreg_".length + index));
        return ALPHABET[(at((place + 1) % 32) - at(place) + 62) % 62] ?? "";
      });
      expect(chiSquare(steps), `after place ${place}`).toBeLessThan(165);
    }
  });
});

test("the format stays what it is: these are keys for ever", () => {
  expect(isWellFormed("delreg_000000000000000000000000000000001L8raU")).toBe(true);
  expect(isWellFormed("delreg_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef4NUEqv")).toBe(true);
  expect(isWellFormed("delreg_zyxwvutsrqponmlkjihgfedcba9876544Z7kW6")).toBe(true);
});

describe("a typo is told from a key that nobody has", () => {
  test("any other character, at every place", () => {
    const others = Array.from({ length: 127 - 32 }, (_, index) => String.fromCharCode(32 + index));
    expectTold((key) =>
      positions(key).flatMap((at) => others.map((other) => `${key.slice(0, at)}${other}${key.slice(at + 1)}`)),
    );
  });

  test("two neighbours that changed places", () => {
    expectTold((key) =>
      positions(key).map((at) => `${key.slice(0, at)}${key.charAt(at + 1)}${key.charAt(at)}${key.slice(at + 2)}`),
    );
  });

  test("a part that was cut off, at either end, or one character left out", () => {
    expectTold((key) => positions(key).flatMap((at) => [key.slice(0, at), key.slice(at + 1)]));
    expectTold((key) => positions(key).map((at) => `${key.slice(0, at)}${key.slice(at + 1)}`));
  });

  test("a character too many, at every place, or the same one twice", () => {
    expectTold((key) =>
      [...positions(key), key.length].flatMap((at) =>
        [...ALPHABET, key.charAt(at)]
          .filter((more) => more !== "")
          .map((more) => `${key.slice(0, at)}${more}${key.slice(at)}`),
      ),
    );
  });

  test("spaces, line ends, quotes, brackets or another key around it", () => {
    const around = [" ", "\t", "\n", "\r\n", "\0", "\u00a0", "\ufeff", '"', "'", "`", "<", ">", ",", ";", "=", "/"];
    expectTold((key) => [
      ...around.flatMap((text) => [`${text}${key}`, `${key}${text}`, `${text}${key}${text}`]),
      `Bearer ${key}`,
      `${key}${key}`,
      `${key}, ${key}`,
      `${key}\n${key}`,
    ]);
  });

  test("another case, another beginning, or none", () => {
    expectTold((key) => [
      key.toUpperCase(),
      key.toLowerCase(),
      key.slice("delreg_".length),
      key.replace("delreg_", "delreg-"),
      key.replace("delreg_", "dk_live"),
      key.replace("delreg_", "DELREG_"),
    ]);
  });

  test("anything else, however much it looks like a key", () => {
    const looksLikeKey = fc.string({ unit: fc.constantFrom(...ALPHABET), minLength: 38, maxLength: 38 });
    fc.assert(
      fc.property(looksLikeKey, (text) => {
        const key = `delreg_${text}`;
        expect(isWellFormed(key), key).toBe(checksumOf(key.slice(0, -6)) === key.slice(-6));
      }),
      { numRuns: 10_000 },
    );
    fc.assert(fc.property(fc.string({ unit: "binary", maxLength: 100 }), (text) => !isWellFormed(text)));
  });
});

test("a leaked key can be found by its form wherever it was left", () => {
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

test("the hash that is stored is SHA-256 of the whole key, in hex", () => {
  fc.assert(
    fc.property(anyKey, (key) => {
      expect(hashKey(key)).toBe(createHash("sha256").update(key, "utf8").digest("hex"));
    }),
  );
  expect(hashKey("abc")).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
});
