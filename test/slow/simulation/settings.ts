import { parseArgs } from "node:util";
import { SettingsError } from "../../../process/settings.ts";

export type SimulationSettings = {
  seed: number;
  /** Minimum number of registry operations to send. */
  ops: number;
};

const LARGEST_SEED = 2 ** 32 - 1;
const DEFAULT_OPS = 700;

const USAGE = `npm run simulate -- [--seed <number>] [--ops <number>]

Runs the service while reorgs, kills, restarts of Postgres and a re-index happen, behind RPC endpoints that change every
few seconds: the limits, rate limits and quotas of 30 providers in their own words, heads that jump back and forth, wrong
bloom filters, a WebSocket that is silent or closed, an endpoint without history, calls that fail and answers that are
false. Compares every answer with the registries' own.

  --seed   what everything is drawn from, 0 to ${LARGEST_SEED}; by default another one each time
  --ops    how many registry operations to send, ${DEFAULT_OPS} by default

Exit codes: 0 everything agreed with the registries, 1 something differed, 2 it could not be run.`;

const OPTIONS = { seed: { type: "string" }, ops: { type: "string" } } as const;

/** Throws an error with every problem, or with the usage. */
export const parseSimulationSettings = (args: string[]): SimulationSettings => {
  const { seed = String(Date.now() % LARGEST_SEED), ops = String(DEFAULT_OPS) } = readOptions(args);
  const problems: string[] = [];
  if (!/^\d{1,10}$/.test(seed) || Number(seed) > LARGEST_SEED)
    problems.push(`--seed must be a number up to ${LARGEST_SEED}.`);
  if (!/^[1-9]\d{0,6}$/.test(ops)) problems.push("--ops must be a number of operations.");
  if (problems.length > 0) throw new SettingsError(problems);
  return { seed: Number(seed), ops: Number(ops) };
};

const readOptions = (args: string[]) => {
  try {
    return parseArgs({ args, options: OPTIONS }).values;
  } catch (error) {
    if (error instanceof TypeError) throw new Error(USAGE);
    throw error;
  }
};
