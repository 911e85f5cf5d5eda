import type { AtBlock } from "./questions.ts";
import { notAnAnswer } from "./registry-error.ts";

/** The block of an answer. */
export type AnsweredBlock = {
  number: bigint;
  /** True if no reorg can change the answer. */
  final: boolean;
};

/** Reads the block of an answer. Throws if it is not the one that was asked for. */
export const readBlock = ({ block, minBlock }: AtBlock, number: unknown, isFinal: unknown): AnsweredBlock => {
  if (!/^\d+$/.test(String(number))) throw notAnAnswer({ block: number });
  const answered = { number: BigInt(String(number)), final: isFinal === true };
  const isAsked = block === undefined || (block === "finalized" ? answered.final : answered.number === BigInt(block));
  if (isAsked && (minBlock === undefined || answered.number >= BigInt(minBlock))) return answered;
  throw notAnAnswer({ block: number, final: isFinal });
};

/** Reads the block of an answer from its headers. */
export const readBlockHeaders = (at: AtBlock, headers: Headers): AnsweredBlock => {
  const number = headers.get("X-Answered-Block") ?? headers.get("X-Indexed-Block");
  const finalized = headers.get("X-Finalized-Block");
  if (finalized === null) throw notAnAnswer({ block: number });
  return readBlock(at, number, Number(number) <= Number(finalized));
};
