/** A measurement of ours beside one of a baseline, from the same run. */
export type Comparison = {
  name: string;
  baseline: string;
  unit: string;
  ours: number;
  theirs: number;
  /** Ours by theirs. */
  ratio: number;
  /** What the ratio has to be. */
  target: { atLeast: number } | { atMost: number };
  isMet: boolean;
  details: Record<string, unknown>;
};
