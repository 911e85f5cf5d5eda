import { residentMemory } from "../../bench/process-cost.ts";
import type { Stack } from "../stack.ts";

/** Memory of a process at one time, in MB. */
export type MemorySample = { at: number; process: string; pid: number; megabytes: number };

const SHORTEST_LIFE_MS = 240_000;
const MOST_GROWTH_MB = 15;

/** Reads the memory of a process. Null if it was killed, even if it is still listed. */
const readMegabytes = (pid: number): number | null => {
  try {
    return residentMemory(pid) / 2 ** 20 || null;
  } catch {
    return null;
  }
};

/** Samples the memory of the APIs and Ponder every second. */
export const watchMemory = (stack: Stack): { samples: MemorySample[]; stop: () => void } => {
  const samples: MemorySample[] = [];
  const timer = setInterval(() => {
    const pids = [
      ...stack.apis.map((api, index) => ({ process: `API ${index + 1}`, pid: api.process?.pid })),
      { process: "Ponder", pid: stack.indexer.ponderPid() },
    ];
    for (const { process, pid } of pids) {
      const megabytes = pid ? readMegabytes(pid) : null;
      if (pid && megabytes !== null) samples.push({ at: Date.now(), process, pid, megabytes });
    }
  }, 1_000);
  return { samples, stop: () => clearInterval(timer) };
};

type MemoryTrend = {
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
export const judgeMemory = (samples: readonly MemorySample[]): MemoryTrend[] =>
  [...new Set(samples.map(({ pid }) => pid))].map((pid) => {
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
