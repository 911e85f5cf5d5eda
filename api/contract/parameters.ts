import { z } from "@hono/zod-openapi";
import type { Address, Hex } from "viem";
import { FULL_RIGHTS, MAX_UINT256 } from "../../registry/delegation.ts";
import type { ParameterError } from "../problem.ts";

// Each parameter is one schema, which parses it and describes it in the OpenAPI document.

/** Addresses of the sandbox's sample delegations: there, every example returns what the document says. */
export const SAMPLES = {
  vault: "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
  /** May act for the vault as a whole. */
  hot: "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
  /** May act for tokens of the vault. */
  guest: "0x90F79bf6EB2c4f870365E785982E1f101E93b906",
  nft: "0xBC4CA0EdA7647A8aB7C2061c2E118A18a936f13D",
  coin: "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
} as const satisfies Record<string, Address>;

/** Creates the schema of a text. @param parse - returns undefined for an invalid text */
export const parsedText = <Value>(message: string, parse: (text: string) => Value | undefined) =>
  z.string().transform((text, context): Value => {
    const value = parse(text);
    if (value !== undefined) return value;
    context.addIssue({ code: "custom", message });
    return z.NEVER;
  });

const address = (description: string, example: Address) =>
  parsedText("must be 0x and 40 hex digits", (text) =>
    /^0x[0-9a-f]{40}$/i.test(text) ? (text.toLowerCase() as Address) : undefined,
  ).openapi({ type: "string", pattern: "^0x[0-9a-fA-F]{40}$", description, example });

export const wallet = address("The wallet whose delegations are listed, in any letter case.", SAMPLES.guest);

const describeSynonym = (synonym?: string) => (synonym ? ` \`${synonym}\` is another name for it.` : "");

export const hotWallet = (synonym?: string, example: Address = SAMPLES.hot) =>
  address(`The hot wallet, which acts for the cold one.${describeSynonym(synonym)}`, example);

export const coldWallet = (synonym?: string) =>
  address(`The cold wallet, which issued the delegation.${describeSynonym(synonym)}`, SAMPLES.vault);

export const contractWithExample = (example: Address) => address("The contract.", example);
export const contract = contractWithExample(SAMPLES.nft);

/** Parses a token id into decimal digits. The digits are counted first: BigInt() takes long for very many. */
export const tokenIdWithExample = (example: string) =>
  parsedText("must be a whole number from 0 to 2^256-1, in decimal or 0x hex digits", (text) => {
    if (!/^(\d{1,78}|0x[0-9a-f]{1,64})$/i.test(text)) return undefined;
    const value = BigInt(text);
    return value <= MAX_UINT256 ? String(value) : undefined;
  }).openapi({
    type: "string",
    pattern: "^([0-9]{1,78}|0x[0-9a-fA-F]{1,64})$",
    description: "The token id, any uint256, in decimal or `0x` hex.",
    example,
  });
export const tokenId = tokenIdWithExample("8520");

const parseRights = (text: string): Hex | undefined => {
  if (/^(0x)?$/i.test(text)) return FULL_RIGHTS;
  if (/^0x[0-9a-f]{64}$/i.test(text)) return text.toLowerCase() as Hex;
  if (/^0x/i.test(text) || text.length > 31) return undefined;
  const bytes = Buffer.from(text);
  if (bytes.length <= 31) return `0x${bytes.toString("hex").padEnd(64, "0")}`;
  return undefined;
};

export const rights = parsedText("must be 0x and 64 hex digits, or a text of at most 31 bytes", parseRights)
  .optional()
  .transform((value) => value ?? FULL_RIGHTS)
  .openapi({
    type: "string",
    description:
      "The required rights: bytes32 (`0x` and 64 hex digits), or a text of at most 31 bytes, which is padded to bytes32. A delegation with full rights satisfies any rights. Without this parameter, only full rights count.",
    example: "0x61697264726f7000000000000000000000000000000000000000000000000000",
  });

export const chainId = parsedText("must be a chain id in decimal digits", (text) =>
  /^\d{1,15}$/.test(text) ? Number(text) : undefined,
)
  .default(1)
  .openapi({ type: "integer", minimum: 1, default: 1, description: "The network.", example: 1 });

const parseBlock = (text: string) => (/^\d{1,15}$/.test(text) ? String(Number(text)) : undefined);

const block = parsedText("must be a block number in decimal digits, or finalized", (text) =>
  text === "finalized" ? text : parseBlock(text),
)
  .optional()
  .openapi({
    type: "string",
    pattern: "^([0-9]+|finalized)$",
    description:
      "A past block, or `finalized` for the newest one that is final: the answer is for the state after it. A block that is not indexed yet is a 503.",
  });

const minBlock = parsedText("must be a block number in decimal digits", parseBlock).optional().openapi({
  type: "integer",
  minimum: 0,
  description: "A block that the answer must include: a 503 until it is indexed. Not together with `block`.",
});

/** Parameters for the block of an answer. */
export const blocks = { block, minBlock };

/** For questions about several networks. */
export const timestamp = parsedText("must be a time in seconds since 1970, in decimal digits", (text) =>
  /^\d{1,11}$/.test(text) ? String(Number(text)) : undefined,
)
  .optional()
  .openapi({
    type: "integer",
    minimum: 0,
    description:
      "A past time, in seconds since 1970: on each network, the answer is for the state after its last block up to then. A time that is not indexed yet is a 503.",
  });

/** The block that a request asks for, in digits or "finalized", or the time. */
export type AskedBlock = {
  block?: string | undefined;
  minBlock?: string | undefined;
  timestamp?: string | undefined;
};

/** Reports all but the first of block, minBlock and timestamp. */
export const validateBlocks = ({ block, minBlock, timestamp }: AskedBlock): ParameterError[] => {
  const [first, ...others] = Object.entries({ block, minBlock, timestamp }).filter(([, value]) => value !== undefined);
  return others.map(([parameter]) => ({ parameter, message: `must not be given together with ${first?.[0]}` }));
};

export const numbers = z
  .enum(["number", "string"], { error: 'must be "number" or "string"' })
  .default("number")
  .openapi({
    description:
      "The format of balances and token ids: JSON numbers of any length, or JSON strings for clients that cannot read big integers.",
  });

export const flag = (description: string) =>
  parsedText('must be "true" or "false"', (text) => (text === "true" ? true : text === "false" ? false : undefined))
    .default(false)
    .openapi({ type: "boolean", default: false, description });

export const details = flag(
  "Adds direction, chain, rights, amount, token standard, and the event that made the delegation active.",
);

export const proof = flag(
  "Adds the proof of the registry's state at the block of the answer: see /docs. It counts as ten requests.",
);

export const integerUpTo = (max: number) =>
  parsedText(`must be a whole number from 1 to ${max}`, (text) => {
    const value = /^\d{1,4}$/.test(text) ? Number(text) : 0;
    return value >= 1 && value <= max ? value : undefined;
  });

export const MAX_LIMIT = 1000;

export const limit = integerUpTo(MAX_LIMIT).optional().openapi({
  type: "integer",
  minimum: 1,
  maximum: MAX_LIMIT,
  description: "Delegations per page. Without it, the response is the whole list.",
});
