import type { LoadError } from "./load.ts";

/** Memory of a process at one time, in MB. */
export type MemorySample = { at: number; process: string; pid: number; megabytes: number };

/** A fault, from its start until the service has recovered. */
export type Window = {
  name: string;
  from: number;
  causeGone: number;
  recovered: number;
  concerns: (error: LoadError) => boolean;
};

/** A request in flight at the recovery may still fail because of the fault. */
const LATE_MS = 2_000;
const SHORTEST_LIFE_MS = 240_000;
const MOST_GROWTH_MB = 15;

const isIn = ({ from, recovered, concerns }: Window, error: LoadError): boolean =>
  error.at >= from && error.at <= recovered + LATE_MS && concerns(error);

/** Counts errors by the fault that explains them, and collects the unexplained ones. */
export const assignErrors = (errors: readonly LoadError[], windows: readonly Window[]) => {
  const byWindow = new Map(windows.map((window) => [window, 0]));
  const unexplained: LoadError[] = [];
  for (const error of errors) {
    const window = windows.find((window) => isIn(window, error));
    if (window) byWindow.set(window, (byWindow.get(window) ?? 0) + 1);
    else unexplained.push(error);
  }
  return { byWindow, unexplained };
};

export type MemoryTrend = {
  process: string;
  seconds: number;
  peak: number;
  /**
   * Peak memory in the second third of its life and in the last; null if it lived too short. In the first few minutes a
   * process grows to what its work needs; a leak keeps growing.
   */
  grown: { from: number; to: number } | null;
  isFlat: boolean;
};

/** Judges the memory of each process over its life. */
export const judgeMemory = (samples: readonly MemorySample[]): MemoryTrend[] => {
  const pids = [...new Set(samples.map(({ pid }) => pid))];
  return pids.map((pid) => {
    const own = samples.filter((sample) => sample.pid === pid);
    const [first, last] = [own[0], own.at(-1)];
    if (!first || !last) throw new Error(`Process ${pid} has no samples.`);
    const life = last.at - first.at;
    const most = (third: number) =>
      Math.max(
        ...own
          .filter(({ at }) => at >= first.at + (life * (third - 1)) / 3 && at <= first.at + (life * third) / 3)
          .map(({ megabytes }) => megabytes),
      );
    const grown = life < SHORTEST_LIFE_MS ? null : { from: most(2), to: most(3) };
    return {
      process: first.process,
      seconds: Math.round(life / 1000),
      peak: Math.max(...own.map(({ megabytes }) => megabytes)),
      grown,
      isFlat: grown === null || grown.to - grown.from <= MOST_GROWTH_MB,
    };
  });
};
