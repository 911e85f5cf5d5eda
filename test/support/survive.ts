import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import type { Fault } from "../slow/soak/faults.ts";
import type { LoadReport } from "../slow/soak/load.ts";
import { runLoad } from "../slow/soak/run-load.ts";
import { Service } from "../slow/soak/service.ts";
import { assignErrors } from "../slow/soak/verdict.ts";
import { waitUntil } from "./setup.ts";

const PER_SECOND = 60;
const CONNECTIONS = 6;
/** The service refuses a request within 2 s; a busy machine may take twice as long. */
const LATEST_MS = 4_000;
/** Longer than any fault, so that no answer is stale. */
const MAX_LAG_SECONDS = 300;

/** Launches the service over a counting chain, for the tests of a file. The caller stops it. */
export const launchService = async (createDatabase?: (serverUrl: string) => Promise<string>) => {
  const directory = await mkdtemp(join(tmpdir(), "delegation-registry-faults-"));
  const options = { directory, chainIds: [1], apis: 1, maxLagSeconds: MAX_LAG_SECONDS };
  const service = await Service.start({ ...options, ...(createDatabase && { createDatabase }) });
  return {
    service,
    directory,
    stop: async () => {
      await service.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
};

/**
 * Runs a fault under load, and expects no wrong answer, no failure but a timely 503 during the fault, and recovery
 * with all blocks and without help.
 */
export const expectSurvival = async (service: Service, fault: Fault): Promise<{ refused: number }> => {
  const reports: LoadReport[] = [];
  const load = { ports: service.ports, counters: service.counters, connections: CONNECTIONS, perSecond: PER_SECOND };
  const running = runLoad(load, (report) => reports.push(report));
  const answered = () => reports.reduce((sum, report) => sum + report.answered, 0);
  try {
    await waitUntil("the service answers", answered, 60, (count) => count > PER_SECOND);
    const from = Date.now();
    await fault.run(service);
    const causeGone = Date.now();
    await service.untilRecovered();
    const recovered = Date.now();
    const before = answered();
    await waitUntil("the service answers as before", answered, 20, (count) => count > before + 2 * PER_SECOND);

    const errors = reports.flatMap((report) => report.errors);
    const window = { name: fault.name, from, causeGone, recovered, concerns: () => true };
    console.log(
      `${fault.name}: ${answered()} answers, ${errors.length} refusals; it recovered ${((recovered - causeGone) / 1000).toFixed(1)} s after its cause was gone`,
    );
    expect(reports.flatMap(({ wrong }) => wrong)).toEqual([]);
    expect(assignErrors(errors, [window]).unexplained).toEqual([]);
    expect(errors.filter(({ what }) => !what.startsWith("503 "))).toEqual([]);
    expect(errors.filter(({ ms }) => ms > LATEST_MS)).toEqual([]);
    return { refused: errors.length };
  } finally {
    await running.stop();
  }
};
