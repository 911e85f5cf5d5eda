/** What a ratio has to be. */
type Target = { atLeast: number } | { atMost: number };

/** A measurement of ours beside one of a baseline, from the same run. */
export type Comparison = {
  baseline: string;
  unit: string;
  ours: number;
  theirs: number;
  /** Ours by theirs. */
  ratio: number;
  target: Target;
  isMet: boolean;
};

export const compare = ({ ours, theirs, target, ...names }: Omit<Comparison, "ratio" | "isMet">): Comparison => {
  const ratio = ours / theirs;
  const isMet = "atLeast" in target ? ratio >= target.atLeast : ratio <= target.atMost;
  return { ...names, ours, theirs, ratio, target, isMet };
};
