import { z } from "@hono/zod-openapi";
import type { Address, Hex } from "viem";
import { FULL_RIGHTS, MAX_UINT256 } from "../registry/delegation.ts";
import { parseCursor } from "./cursor.ts";

// What a request may say. Each parameter is one schema, which reads it and describes it in the OpenAPI document.

/** Of the sandbox's samples: whoever tries an example there gets what the document says. */
export const SAMPLES = {
  vault: "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
  /** May act for the vault as a whole. */
  hot: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
  /** May act for tokens of the vault. */
  guest: "0x90F79bf6EB2c4f870365E785982E1f101E93b906",
  nft: "0xBC4CA0EdA7647A8aB7C2061c2E118A18a936f13D",
  coin: "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
} as const satisfies Record<string, Address>;

/** A text that is read as a value. @param parse - undefined for a text that is not what it must be */
export const read = <Value>(must: string, parse: (text: string) => Value | undefined) =>
  z.string().transform((text, context): Value => {
    const value = parse(text);
    if (value !== undefined) return value;
    context.addIssue({ code: "custom", message: must });
    return z.NEVER;
  });

const address = (description: string, example: Address) =>
  read("must be 0x and 40 hex digits", (text) =>
    /^0x[0-9a-f]{40}$/i.test(text) ? (text.toLowerCase() as Address) : undefined,
  ).openapi({ type: "string", pattern: "^0x[0-9a-fA-F]{40}$", description, example });

export const wallet = address("The wallet whose delegations are listed, in any letter case.", SAMPLES.guest);

const alsoNamed = (synonym?: string) => (synonym ? ` \`${synonym}\` is another name for it.` : "");

export const hotWallet = (synonym?: string, example: Address = SAMPLES.hot) =>
  address(`The hot wallet, which acts for the cold one.${alsoNamed(synonym)}`, example);

export const coldWallet = (synonym?: string) =>
  address(`The cold wallet, which issued the delegation.${alsoNamed(synonym)}`, SAMPLES.vault);

export const contractOf = (example: Address) => address("The contract.", example);
export const contract = contractOf(SAMPLES.nft);

/** In digits. */
export const tokenIdLike = (example: string) =>
  read("must be a whole number from 0 to 2^256-1, in decimal or 0x hex digits", (text) => {
    if (!/^(\d+|0x[0-9a-f]+)$/i.test(text)) return undefined;
    const value = BigInt(text);
    return value <= MAX_UINT256 ? String(value) : undefined;
  }).openapi({
    type: "string",
    pattern: "^([0-9]+|0x[0-9a-fA-F]+)$",
    description: "The token id, any uint256, in decimal or `0x` hex.",
    example,
  });
export const tokenId = tokenIdLike("8520");

export const rights = read("must be 0x and 64 hex digits, or a text of at most 31 bytes", (text): Hex | undefined => {
  if (/^(0x)?$/i.test(text)) return FULL_RIGHTS;
  if (/^0x[0-9a-f]{64}$/i.test(text)) return text.toLowerCase() as Hex;
  const bytes = Buffer.from(text);
  if (!/^0x/i.test(text) && bytes.length <= 31) return `0x${bytes.toString("hex").padEnd(64, "0")}`;
  return undefined;
})
  .optional()
  .transform((given) => given ?? FULL_RIGHTS)
  .openapi({
    type: "string",
    description:
      "The rights that are needed: bytes32 (`0x` and 64 hex digits), or a text of at most 31 bytes, which is padded to bytes32. A delegation with full rights satisfies any. Without it, only full rights count.",
    example: "0x61697264726f7000000000000000000000000000000000000000000000000000",
  });

export const chainId = read("must be a chain id in decimal digits", (text) =>
  /^\d{1,15}$/.test(text) ? Number(text) : undefined,
)
  .default(1)
  .openapi({ type: "integer", minimum: 1, default: 1, description: "The network.", example: 1 });

export const numbers = z
  .enum(["number", "string"], { error: 'must be "number" or "string"' })
  .default("number")
  .openapi({
    description:
      "How balances and token ids are written: as JSON numbers of any length, or as JSON strings for clients that cannot read big integers.",
  });

export const details = read('must be "true" or "false"', (text) =>
  text === "true" ? true : text === "false" ? false : undefined,
)
  .default(false)
  .openapi({
    type: "boolean",
    default: false,
    description: "Adds direction, chain, rights, amount, token standard, and the event that made it active.",
  });

/** A whole number from 1 to a most. */
export const upTo = (most: number) =>
  read(`must be a whole number from 1 to ${most}`, (text) => {
    const value = /^\d{1,4}$/.test(text) ? Number(text) : 0;
    return value >= 1 && value <= most ? value : undefined;
  });

export const MAX_LIMIT = 1000;

export const limit = upTo(MAX_LIMIT).optional().openapi({
  type: "integer",
  minimum: 1,
  maximum: MAX_LIMIT,
  description: "Delegations per page. Without it the whole list is sent.",
});

export const cursor = read("is not one that a list gave: start again without it", parseCursor).optional().openapi({
  type: "string",
  description: "Where the page starts: from the `Link` header of the one before it.",
});
