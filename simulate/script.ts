import { drawFor } from "./draw.ts";

/** What befalls the service while operations are sent. */
export type Incident =
  | { kind: "reorg"; reach: number; early: boolean }
  | { kind: "kill indexer" | "kill Ponder" | "kill API" | "stop Postgres" | "crash Postgres" | "re-index" }
  | { kind: "checkpoint" };

/** An incident, and after which part of the operations it comes. */
type Cue = Incident & { at: number };

/** One for so many operations, and at least one. */
const OPS_PER = { reorg: 45, kill: 175, postgres: 350, reindex: 700, checkpoint: 350 };

const KILLS = ["kill indexer", "kill Ponder", "kill API"] as const;
const POSTGRES = ["stop Postgres", "crash Postgres"] as const;

/**
 * What happens in a run, in its order: all of it is drawn from the seed, as are the operations, the reorgs' depths and
 * which calls of the RPC fail. How long each thing takes is not: two runs of a seed are alike, but not the same.
 */
export const drawScript = (seed: number, ops: number): readonly Cue[] => {
  const random = drawFor(seed, "script");
  const several = (opsPer: number, draw: (index: number) => Incident): Cue[] =>
    Array.from({ length: Math.ceil(ops / opsPer) }, (_, index) => ({ ...draw(index), at: random.next() }));
  // One of each kind before another of the same.
  const turn = random.integer(0, 5);
  const cues = [
    ...several(OPS_PER.reorg, () => ({ kind: "reorg", reach: random.next(), early: random.chance(0.25) })),
    ...several(OPS_PER.kill, (index) => ({ kind: KILLS[(turn + index) % KILLS.length] ?? KILLS[0] })),
    ...several(OPS_PER.postgres, (index) => ({ kind: POSTGRES[(turn + index) % POSTGRES.length] ?? POSTGRES[0] })),
    ...several(OPS_PER.reindex, () => ({ kind: "re-index" })),
    ...several(OPS_PER.checkpoint, () => ({ kind: "checkpoint" })),
  ];
  return cues.sort((a, b) => a.at - b.at);
};

/** How many blocks a reorg takes back: mostly few, now and then as many as there can be. */
export const depthOf = (reach: number, most: number): number => Math.max(1, Math.ceil(reach ** 3 * most));
