import { createRandom } from "./create-random.ts";

/** An incident during the operations. */
export type Incident =
  | { kind: "reorg"; reach: number; early: boolean }
  | { kind: "kill indexer" | "kill Ponder" | "kill API" | "stop Postgres" | "crash Postgres" | "re-index" }
  | { kind: "checkpoint" };

/** An incident, and the share of operations after which it happens. */
type Cue = Incident & { at: number };

/** Operations per incident of each kind. Each kind happens at least once. */
const OPS_PER = { reorg: 45, kill: 175, postgres: 350, reindex: 700, checkpoint: 350 };

const KILLS = ["kill indexer", "kill Ponder", "kill API"] as const;
const POSTGRES = ["stop Postgres", "crash Postgres"] as const;

/**
 * Draws the incidents of a run, in order. The seed determines them, the operations, the depths of reorgs and the RPC
 * calls that fail. It does not determine durations: two runs of a seed are similar, but not identical.
 */
export const drawScript = (seed: number, ops: number): readonly Cue[] => {
  const random = createRandom(seed, "script");
  const several = (opsPer: number, draw: (index: number) => Incident): Cue[] =>
    Array.from({ length: Math.ceil(ops / opsPer) }, (_, index) => ({ ...draw(index), at: random.next() }));
  // Each kind happens once before one of them happens again.
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

/** Computes the depth of a reorg: mostly small, sometimes the largest possible. */
export const computeDepth = (reach: number, most: number): number => Math.max(1, Math.ceil(reach ** 3 * most));
