import type { AnswerJson, AnswersJson } from "./json.ts";
import type { Check } from "./read-check.ts";

/** The columns that a download adds. */
export const ANSWER_COLUMNS = ["result", "problem", "block", "final"] as const;

/** The answer to a check, as in a download. A balance stays a text: a number would be rounded. */
export type Answer = Record<(typeof ANSWER_COLUMNS)[number], string>;

export const createProblem = (problem: string): Answer => ({ result: "", problem, block: "", final: "" });

export const readAnswer = ({ result, problem }: AnswerJson, { chainId }: Check, { blocks }: AnswersJson): Answer => {
  if (result === undefined) return createProblem(problem?.detail ?? "The response lacks an answer to this check.");
  const block = blocks[chainId];
  return { result: String(result), problem: "", block: String(block?.number ?? ""), final: String(block?.final ?? "") };
};

/** Answers of each kind: true, false, a balance above 0, one of 0, a problem. */
export type Counts = Readonly<Record<"true" | "false" | "balance" | "nothing" | "problem", number>>;

export const NO_ANSWERS: Counts = { true: 0, false: 0, balance: 0, nothing: 0, problem: 0 };

export const countAnswers = (counts: Counts, answers: readonly Answer[]): Counts => {
  const sums = { ...counts };
  for (const answer of answers) sums[findKind(answer)]++;
  return sums;
};

const findKind = ({ result, problem }: Answer): keyof Counts => {
  if (problem !== "") return "problem";
  if (result === "true" || result === "false") return result;
  return result === "0" ? "nothing" : "balance";
};
