import { parseArgs } from "node:util";
import { rejectOnAbort, runUntilStopped } from "../../process/program.ts";
import { SettingsError } from "../../process/settings.ts";
import { DifferenceError, Simulation } from "./simulation.ts";

// npm run simulate: runs the service under faults drawn from one seed, and compares it with the registries' own answers.

const AGREED = 0;
const DIFFERED = 1;
const NOT_RUN = 2;

const LARGEST_SEED = 2 ** 32 - 1;
const DEFAULT_OPS = 700;

const USAGE = `npm run simulate -- [--seed <number>] [--ops <number>]

Runs the service while reorgs, kills, restarts of Postgres and a re-index happen, behind RPC endpoints that change every
few seconds: the limits, rate limits and quotas of 30 providers in their own words, heads that jump back and forth, wrong
bloom filters, log indexes without some logs, a WebSocket that is silent or closed, an endpoint without history, calls
that fail and answers that are false. Compares every answer with the registries' own.

  --seed  what everything is drawn from, 0 to ${LARGEST_SEED}; by default another one each time
  --ops   how many registry operations to send, ${DEFAULT_OPS} by default

Exit codes: 0 everything agreed with the registries, 1 something differed, 2 it could not be run.`;

/** Throws an error with every problem, or with the usage. */
const parseSettings = () => {
  const { seed = String(Date.now() % LARGEST_SEED), ops = String(DEFAULT_OPS) } = readOptions();
  const problems: string[] = [];
  if (!/^\d{1,10}$/.test(seed) || Number(seed) > LARGEST_SEED)
    problems.push(`--seed must be a number up to ${LARGEST_SEED}.`);
  if (!/^[1-9]\d{0,6}$/.test(ops)) problems.push("--ops must be a number of operations.");
  if (problems.length > 0) throw new SettingsError(problems);
  return { seed: Number(seed), ops: Number(ops) };
};

const readOptions = () => {
  try {
    return parseArgs({ options: { seed: { type: "string" }, ops: { type: "string" } } }).values;
  } catch (error) {
    if (error instanceof TypeError) throw new Error(USAGE);
    throw error;
  }
};

const startedAt = Date.now();
const say = (text: string) => console.log(`${((Date.now() - startedAt) / 1000).toFixed(1).padStart(6)} s  ${text}`);

await runUntilStopped(async (signal) => {
  process.exitCode = NOT_RUN;
  const settings = parseSettings();
  const { seed, ops } = settings;
  say(`Seed ${seed}, ${ops} operations.`);
  const simulation = await Simulation.create(settings, say);
  try {
    const totals = await rejectOnAbort(signal, simulation.run());
    process.exitCode = AGREED;
    console.log("\nEverything agreed with the registries:\n");
    for (const [name, count] of totals) console.log(`  ${name.padEnd(28)}${String(count).padStart(9)}`);
  } catch (error) {
    if (!(error instanceof DifferenceError)) throw error;
    process.exitCode = DIFFERED;
    console.log(`\nNot as the registries have it:\n${error.message}`);
    console.log(`\nTo run it again: npm run simulate -- --seed ${seed} --ops ${ops}`);
  } finally {
    const keepsFolder = process.exitCode !== AGREED && !signal.aborted;
    const folder = await simulation.stop({ keepsFolder });
    if (keepsFolder) console.log(`The logs and the database are in ${folder}.`);
    say("Stopped.");
  }
});
