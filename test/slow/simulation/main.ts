import { rejectOnAbort, runUntilStopped } from "../../../process/program.ts";
import { SimulatedDeployment } from "./deployment.ts";
import { DifferenceError, Simulation } from "./run-simulation.ts";
import { parseSimulationSettings } from "./settings.ts";

// npm run simulate: runs the service under faults drawn from one seed, and compares it with the registries' own answers.

const AGREED = 0;
const DIFFERED = 1;
const NOT_RUN = 2;

// Two networks with both registries.
const CHAIN_IDS = [10, 8453];

const startedAt = Date.now();
const say = (text: string) => console.log(`${((Date.now() - startedAt) / 1000).toFixed(1).padStart(6)} s  ${text}`);

await runUntilStopped(async (signal) => {
  process.exitCode = NOT_RUN;
  const settings = parseSimulationSettings(process.argv.slice(2));
  const { seed, ops } = settings;
  say(`Seed ${seed}, ${ops} operations.`);
  const deployment = await SimulatedDeployment.start(seed, CHAIN_IDS);
  try {
    const simulation = await Simulation.create(deployment, settings, say);
    const totals = await rejectOnAbort(signal, simulation.run());
    process.exitCode = AGREED;
    console.log("\nEverything agreed with the registries:\n");
    for (const [name, count] of Object.entries(totals)) console.log(`  ${name.padEnd(28)}${String(count).padStart(9)}`);
  } catch (error) {
    if (!(error instanceof DifferenceError)) throw error;
    process.exitCode = DIFFERED;
    console.log(`\nNot as the registries have it:\n${error.message}`);
    console.log(`\nTo run it again: npm run simulate -- --seed ${seed} --ops ${ops}`);
  } finally {
    const keepsFolder = process.exitCode !== AGREED && !signal.aborted;
    await deployment.stop({ keepsFolder });
    if (keepsFolder) console.log(`The logs and the database are in ${deployment.folder}.`);
    say("Stopped.");
  }
});
