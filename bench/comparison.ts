type Target = { atLeast: number } | { atMost: number };

/** A figure of ours beside a baseline's, from the same run. */
export type Comparison = {
  baseline: string;
  unit: string;
  ours: number;
  theirs: number;
  /** Ours divided by theirs. */
  ratio: number;
  target: Target;
  isMet: boolean;
};

export const compare = ({ ours, theirs, target, ...names }: Omit<Comparison, "ratio" | "isMet">): Comparison => {
  const ratio = ours / theirs;
  const isMet = "atLeast" in target ? ratio >= target.atLeast : ratio <= target.atMost;
  return { ...names, ours, theirs, ratio, target, isMet };
};
