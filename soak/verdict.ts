import type { LoadError } from "./load.ts";

/** A second's memory of a process, in MB. */
export type Sample = { at: number; process: string; pid: number; megabytes: number };

/** A fault, from its beginning until the service had recovered. */
export type Window = {
  name: string;
  from: number;
  causeGone: number;
  recovered: number;
  concerns: (error: LoadError) => boolean;
};

/** A request that was under way when the service had recovered may still be told of the fault. */
const LATE_MS = 2_000;
const SHORTEST_LIFE_MS = 240_000;
const MOST_GROWTH_MB = 15;

const isIn = ({ from, recovered, concerns }: Window, error: LoadError): boolean =>
  error.at >= from && error.at <= recovered + LATE_MS && concerns(error);

/** Errors by the fault that they belong to; those that belong to none are nobody's. */
export const sortErrors = (errors: readonly LoadError[], windows: readonly Window[]) => {
  const ofWindow = new Map(windows.map((window) => [window, 0]));
  const nobodys: LoadError[] = [];
  for (const error of errors) {
    const window = windows.find((window) => isIn(window, error));
    if (window) ofWindow.set(window, (ofWindow.get(window) ?? 0) + 1);
    else nobodys.push(error);
  }
  return { ofWindow, nobodys };
};

export type Life = {
  process: string;
  seconds: number;
  peak: number;
  /**
   * The most that it had in the second third of its life, and in the last, where it lived long enough. In the first few
   * minutes a process grows to what its work needs; what leaks goes on growing.
   */
  grown: { from: number; to: number } | null;
  isFlat: boolean;
};

/** How the memory of each process went. */
export const judgeMemory = (samples: readonly Sample[]): Life[] => {
  const pids = [...new Set(samples.map(({ pid }) => pid))];
  return pids.map((pid) => {
    const own = samples.filter((sample) => sample.pid === pid);
    const [first, last] = [own[0], own.at(-1)];
    if (!first || !last) throw new Error("A process without samples.");
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
