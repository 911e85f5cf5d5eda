import { type Address, type Hex, maxUint256, stringToHex } from "viem";
import { FULL_RIGHTS } from "../registry/delegation.ts";
import { type Cursor, parseCursor } from "./cursor.ts";
import { z } from "./zod.ts";

// What a request may say. Each parameter is written down once: it validates the request and describes
// itself in the OpenAPI document.

/** How a parameter of a request is read: a text, as a value. */
export type Reading<Value> = {
  in: "path" | "query";
  /** Other names that it goes by. */
  synonyms: readonly string[];
  /** Reads it; undefined where it is not what it must be. */
  parse: (text: string) => Value | undefined;
  /** What is said then. */
  must: string;
  /** The value where it is not given; without it, it has to be. */
  default?: Value;
  /** Whether it may be given only once, even with the same value. */
  isSingle?: boolean;
};

/** A parameter of what the OpenAPI document describes. */
export type Parameter<Value> = Reading<Value> & { schema: z.ZodType };

export type ReadingsOf<Values> = { [Name in keyof Values]: Reading<Values[Name]> };

/** The parameters that are read as these values. */
export type ParametersOf<Values> = { [Name in keyof Values]: Parameter<Values[Name]> };

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

const parseAddress = (text: string): Address | undefined =>
  /^0x[0-9a-f]{40}$/i.test(text) ? (text.toLowerCase() as Address) : undefined;

const address = (place: "path" | "query", description: string, example: Address): Parameter<Address> => ({
  in: place,
  synonyms: [],
  parse: parseAddress,
  must: "must be 0x and 40 hex digits",
  schema: z.string().openapi({ pattern: "^0x[0-9a-fA-F]{40}$", description, example }),
});

/** The same parameter with another example: where the one that others share would not show much. */
export const withExample = <Value>(parameter: Parameter<Value>, example: string): Parameter<Value> => ({
  ...parameter,
  schema: parameter.schema.openapi({ example }),
});

type Names = { synonym?: string };

export const wallet = address("path", "The wallet whose delegations are listed, in any letter case.", SAMPLES.guest);

const walletInQuery =
  (what: string, example: Address) =>
  ({ synonym }: Names = {}): Parameter<Address> => ({
    ...address("query", `${what}${synonym ? ` \`${synonym}\` is another name for it.` : ""}`, example),
    synonyms: synonym ? [synonym] : [],
  });

export const hotWallet = walletInQuery("The hot wallet, which acts for the cold one.", SAMPLES.hot);

export const coldWallet = walletInQuery("The cold wallet, which issued the delegation.", SAMPLES.vault);

export const contract = address("query", "The contract.", SAMPLES.nft);

/** In digits. */
export const tokenId: Parameter<string> = {
  in: "query",
  synonyms: [],
  parse: (text) => {
    // What nearly everybody writes, and has too few digits to be too large.
    if (/^(0|[1-9]\d{0,76})$/.test(text)) return text;
    if (!/^(\d+|0x[0-9a-f]+)$/i.test(text)) return undefined;
    const value = BigInt(text);
    return value <= maxUint256 ? String(value) : undefined;
  },
  must: "must be a whole number from 0 to 2^256-1, in decimal or 0x hex digits",
  schema: z.string().openapi({
    pattern: "^([0-9]+|0x[0-9a-fA-F]+)$",
    description: "The token id, any uint256, in decimal or `0x` hex.",
    example: "8520",
  }),
};

export const rights: Parameter<Hex> = {
  in: "query",
  synonyms: [],
  default: FULL_RIGHTS,
  parse: (text) => {
    if (/^(0x)?$/i.test(text)) return FULL_RIGHTS;
    if (/^0x[0-9a-f]{64}$/i.test(text)) return text.toLowerCase() as Hex;
    if (!/^0x/i.test(text) && Buffer.byteLength(text) <= 31) return stringToHex(text, { size: 32 });
    return undefined;
  },
  must: "must be 0x and 64 hex digits, or a text of at most 31 bytes",
  schema: z.string().openapi({
    description:
      "The rights that are needed: bytes32 (`0x` and 64 hex digits), or a text of at most 31 bytes, which is padded to bytes32. A delegation with full rights satisfies any. Without it, only full rights count.",
    example: "0x61697264726f7000000000000000000000000000000000000000000000000000",
  }),
};

export const chainId: Parameter<number> = {
  in: "query",
  synonyms: [],
  default: 1,
  isSingle: true,
  parse: (text) => (/^\d{1,15}$/.test(text) ? Number(text) : undefined),
  must: "must be a chain id in decimal digits",
  schema: z.int().openapi({ minimum: 1, default: 1, description: "The network.", example: 1 }),
};

export const numbers: Parameter<"number" | "string"> = {
  in: "query",
  synonyms: [],
  default: "number",
  parse: (text) => (text === "number" || text === "string" ? text : undefined),
  must: 'must be "number" or "string"',
  schema: z.enum(["number", "string"]).openapi({
    default: "number",
    description:
      "How balances and token ids are written: as JSON numbers of any length, or as JSON strings for clients that cannot read big integers.",
  }),
};

export const details: Parameter<boolean> = {
  in: "query",
  synonyms: [],
  default: false,
  parse: (text) => (text === "true" ? true : text === "false" ? false : undefined),
  must: 'must be "true" or "false"',
  schema: z.boolean().openapi({
    default: false,
    description: "Adds direction, chain, rights, amount, token standard, and the event that made it active.",
  }),
};

export const MAX_LIMIT = 1000;

export const limit: Parameter<number | null> = {
  in: "query",
  synonyms: [],
  default: null,
  parse: (text) => {
    const value = /^\d{1,4}$/.test(text) ? Number(text) : 0;
    return value >= 1 && value <= MAX_LIMIT ? value : undefined;
  },
  must: `must be a whole number from 1 to ${MAX_LIMIT}`,
  schema: z.int().openapi({
    minimum: 1,
    maximum: MAX_LIMIT,
    description: "Delegations per page. Without it the whole list is sent.",
  }),
};

export const cursor: Parameter<Cursor | null> = {
  in: "query",
  synonyms: [],
  default: null,
  parse: parseCursor,
  must: "is not one that a list gave: start again without it",
  schema: z.string().openapi({ description: "Where the page starts: from the `Link` header of the one before it." }),
};
