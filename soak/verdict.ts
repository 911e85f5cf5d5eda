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
/** How long a process is given to warm up, and over how long its memory is taken together. */
const MINUTE_MS = 60_000;
const SHORTEST_LIFE_MS = 4 * MINUTE_MS;
const MOST_GROWTH_MB = 30;

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

const median = (numbers: readonly number[]): number =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;

export type Life = {
  process: string;
  seconds: number;
  peak: number;
  /** Its second minute beside its last, where it lived long enough. */
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
    const between = (from: number, to: number) =>
      median(own.filter(({ at }) => at >= from && at <= to).map(({ megabytes }) => megabytes));
    const grown =
      last.at - first.at < SHORTEST_LIFE_MS
        ? null
        : {
            from: between(first.at + MINUTE_MS, first.at + 2 * MINUTE_MS),
            to: between(last.at - MINUTE_MS, last.at),
          };
    return {
      process: first.process,
      seconds: Math.round((last.at - first.at) / 1000),
      peak: Math.max(...own.map(({ megabytes }) => megabytes)),
      grown,
      isFlat: grown === null || grown.to - grown.from <= MOST_GROWTH_MB,
    };
  });
};
