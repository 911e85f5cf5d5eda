import { type CheckAnswer, RegistryError } from "../../client/src/index.ts";

/** The columns that a download adds. */
export const ANSWER_COLUMNS = ["result", "problem", "block", "final"] as const;

/** The answer to a check, as in a download. A balance stays a text: a number would be rounded. */
export type Answer = Record<(typeof ANSWER_COLUMNS)[number], string>;

export const createProblem = (problem: string): Answer => ({ result: "", problem, block: "", final: "" });

export const readAnswer = ({ value, block }: CheckAnswer): Answer => ({
  result: String(value),
  problem: "",
  block: String(block?.number ?? ""),
  final: String(block?.final ?? ""),
});

/** Reads a problem of one check, or of its network; null if it is a problem of all checks. */
export const readProblem = (error: unknown): Answer | null => {
  const problem = error instanceof RegistryError ? error.problem : null;
  const isOwn = /#problem-(bad-parameter|not-indexed|index-differs|stale-index)$/.test(problem?.type ?? "");
  return problem && isOwn ? createProblem(problem.detail) : null;
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
