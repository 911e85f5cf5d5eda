import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import type { Fault } from "../../soak/faults.ts";
import type { Report } from "../../soak/load.ts";
import { runLoad } from "../../soak/run-load.ts";
import { Service } from "../../soak/service.ts";
import { sortErrors } from "../../soak/verdict.ts";
import { until } from "./setup.ts";

const PER_SECOND = 60;
const CONNECTIONS = 6;
/** The service refuses a request within 2 s; a busy machine may take as long again. */
const LATEST_MS = 4_000;
/** Longer than any fault: answers are stale only where a test wants them so. */
const MAX_LAG_SECONDS = 300;

/** The service over a counting chain, for the tests of a file. The caller stops it. */
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
 * Runs a fault under load, and expects what the service always promises: no wrong answer, no failure but a 503 in time
 * while the fault lasts, and recovery by itself, all blocks included.
 */
export const survive = async (service: Service, fault: Fault): Promise<{ refused: number }> => {
  const reports: Report[] = [];
  const load = { ports: service.ports, counters: service.counters, connections: CONNECTIONS, perSecond: PER_SECOND };
  const running = runLoad(load, (report) => reports.push(report));
  const answered = () => reports.reduce((sum, report) => sum + report.answered, 0);
  try {
    await until("the service answers", answered, 60, (count) => count > PER_SECOND);
    const from = Date.now();
    await fault.run(service);
    const causeGone = Date.now();
    await service.untilRecovered();
    const recovered = Date.now();
    const before = answered();
    await until("the service answers as before", answered, 20, (count) => count > before + 2 * PER_SECOND);

    const errors = reports.flatMap((report) => report.errors);
    const window = { name: fault.name, from, causeGone, recovered, concerns: () => true };
    console.log(
      `${fault.name}: ${answered()} answers, ${errors.length} refusals; it recovered ${((recovered - causeGone) / 1000).toFixed(1)} s after its cause was gone`,
    );
    expect(reports.flatMap(({ wrong }) => wrong)).toEqual([]);
    expect(sortErrors(errors, [window]).nobodys).toEqual([]);
    expect(errors.filter(({ what }) => !what.startsWith("503 "))).toEqual([]);
    expect(errors.filter(({ ms }) => ms > LATEST_MS)).toEqual([]);
    return { refused: errors.length };
  } finally {
    await running.stop();
  }
};
