import { createHash } from "node:crypto";
import { networks } from "../../registry/networks.ts";
import { parsedText } from "../contract/parameters.ts";

// A cursor says how far a reader is on each network. It holds no state of a process or of an index: any process can go
// on from it, and can tell whether the blocks that the reader knows are still on the chain.

/** A block with changes, and the hash of them all. */
export type ChangedBlock = { number: number; digest: string };

/** How far a reader is on a network: everything up to it has been sent. */
export type Position = {
  block: number;
  /** The last change sent from that block; null if the block is complete. */
  change: { logIndex: number; ordinal: number } | null;
  /** No reorg replaces blocks up to this one. */
  final: number;
  /** Hash of the changes in all blocks after it, up to `block`; empty without changes. */
  hash: string;
  /** These blocks. A position from a cursor has the hash alone. */
  blocks: readonly ChangedBlock[] | null;
  /** Its part of a cursor. */
  text: string;
};

export type ChangeCursor = {
  /** Names the question: with other filters, changes would be missing. */
  question: string;
  /** On networks without a position, changes after this time (seconds since 1970) have to be sent. */
  since: number;
  positions: ReadonlyMap<number, Position>;
  /** Parts of networks that this version of the service does not know: another one goes on from them. */
  unknown: readonly string[];
};

/** The whole log. */
export const START = "start";

/** Changes per window are few, and a collision must cost more than anyone has. */
const HASH_LENGTH = 22;

export const hashBlocks = (blocks: readonly ChangedBlock[]): string => {
  if (blocks.length === 0) return "";
  const hash = createHash("sha256");
  for (const { number, digest } of blocks) hash.update(`${number}.${digest}.`);
  return hash.digest("base64url").slice(0, HASH_LENGTH);
};

type PositionParts = Pick<Position, "block" | "change" | "final" | "hash" | "blocks">;

export const createPosition = (chainId: number, parts: PositionParts): Position => {
  const { block, change, final, hash } = parts;
  const place = change ? [chainId, block, change.logIndex, change.ordinal] : [chainId, block];
  const depth = block - final;
  const window = depth === 0 ? "" : `-${depth.toString(36)}${hash && `.${hash}`}`;
  return { ...parts, text: place.map((number) => number.toString(36)).join(".") + window };
};

/** Names a question by its hash. */
export const nameQuestion = (question: object): string =>
  createHash("sha256").update(JSON.stringify(question)).digest("base64url").slice(0, 16);

/** @param positions - their parts of the cursor */
export const encodeChangeCursor = (question: string, since: number, positions: Iterable<string>): string =>
  [question, since.toString(36), ...positions].join("~");

/** Deeper than any network's blocks that are not final. Anyone can write a cursor. */
const MAX_DEPTH = 1_000;

const NUMBER = "[0-9a-z]{1,10}";
const CURSOR = new RegExp(`^[\\w-]{16}~${NUMBER}(~[\\w.-]+)*$`);
const POSITION = new RegExp(
  `^(?<chainId>${NUMBER})\\.(?<block>${NUMBER})(\\.(?<logIndex>${NUMBER})\\.(?<ordinal>${NUMBER}))?` +
    `(-(?<depth>${NUMBER})(\\.(?<hash>[\\w-]{${HASH_LENGTH}}))?)?$`,
);

export const parseChangeCursor = (text: string): ChangeCursor | undefined => {
  // The pattern would take long for a long text.
  if (text.length > 4_096 || !CURSOR.test(text)) return undefined;
  const [question = "", since = "", ...entries] = text.split("~");
  const positions = new Map<number, Position>();
  const unknown = new Map<number, string>();
  for (const entry of entries) {
    const found = parsePosition(entry);
    if (!found || positions.has(found.chainId) || unknown.has(found.chainId)) return undefined;
    if (networks.has(found.chainId)) positions.set(found.chainId, found.position);
    else unknown.set(found.chainId, entry);
  }
  return { question, since: Number.parseInt(since, 36), positions, unknown: [...unknown.values()] };
};

const parsePosition = (entry: string): { chainId: number; position: Position } | undefined => {
  const parts = POSITION.exec(entry)?.groups;
  if (!parts) return undefined;
  const read = (digits = "0") => Number.parseInt(digits, 36);
  const { hash = "" } = parts;
  const chainId = read(parts.chainId);
  const [block, depth] = [read(parts.block), read(parts.depth)];
  const [logIndex, ordinal] = [read(parts.logIndex), read(parts.ordinal)];
  const isPossible = depth <= Math.min(block, MAX_DEPTH) && Math.max(logIndex, ordinal) < MAX_INTEGER;
  if (!isPossible) return undefined;
  const change = parts.logIndex === undefined ? null : { logIndex, ordinal };
  return { chainId, position: createPosition(chainId, { block, change, final: block - depth, hash, blocks: null }) };
};

/** The largest `integer` of Postgres: greater than any log index. */
export const MAX_INTEGER = 2 ** 31 - 1;

const WRONG_CURSOR = "is not from this question: start again without it";

export const WRONG_CHANGE_CURSOR = { parameter: "cursor", message: WRONG_CURSOR };

export const changeCursor = parsedText(WRONG_CURSOR, (text) =>
  text === START ? ("start" as const) : parseChangeCursor(text),
)
  .optional()
  .openapi({
    type: "string",
    example: START,
    description:
      "Where to go on: `next` of a page, or the `id` of an event; `start` for the whole log. Without it: from now on.",
  });
