import { createRandom } from "../../test/support/random.ts";
import {
  apiKilled,
  type Fault,
  indexerKilled,
  ponderKilled,
  postgresCrash,
  postgresRestart,
  reindexed,
} from "../faults.ts";

export type Reorg = { reach: number; early: boolean };

/** An incident, and the share of operations after which it happens. */
type Cue = { at: number } & ({ fault: Fault } | { reorg: Reorg } | { isCheckpoint: true });

/** Operations per incident of each kind. */
const OPS_PER = { reorg: 45, kill: 175, postgres: 350, reindex: 700, checkpoint: 350 };

const KILLS = [indexerKilled, ponderKilled, apiKilled(0)] as const;
const POSTGRES = [postgresRestart, postgresCrash] as const;
const FAULTS: readonly Fault[] = [...KILLS, ...POSTGRES, reindexed];

/**
 * Draws the incidents of a run, in order. The seed determines them, the operations, the depths of reorgs and the RPC
 * calls that fail. It does not determine durations: two runs of a seed are similar, but not identical.
 */
export const drawScript = (seed: number, ops: number): readonly Cue[] => {
  const random = createRandom(seed, "script");
  const several = <T extends object>(opsPer: number, draw: (index: number) => T) =>
    Array.from({ length: Math.ceil(ops / opsPer) }, (_, index) => ({ ...draw(index), at: random.next() }));
  const turn = random.integer(0, 5);
  const reorgs = several(OPS_PER.reorg, () => ({ reorg: { reach: random.next(), early: random.chance(0.25) } }));
  const faults = [
    ...several(OPS_PER.kill, (index) => ({ fault: KILLS[(turn + index) % KILLS.length] ?? KILLS[0] })),
    ...several(OPS_PER.postgres, (index) => ({ fault: POSTGRES[(turn + index) % POSTGRES.length] ?? POSTGRES[0] })),
    ...several(OPS_PER.reindex, () => ({ fault: reindexed })),
  ];
  const checkpoints = several(OPS_PER.checkpoint, () => ({ isCheckpoint: true as const }));
  // In a short run, too, each fault happens at least once.
  const missing = FAULTS.filter((fault) => faults.every((cue) => cue.fault !== fault));
  const cues = [...reorgs, ...faults, ...checkpoints, ...missing.map((fault) => ({ fault, at: random.next() }))];
  return cues.sort((a, b) => a.at - b.at);
};

/** Computes the depth of a reorg: mostly small, sometimes the largest possible. */
export const computeDepth = (reach: number, most: number): number => Math.max(1, Math.ceil(reach ** 3 * most));
