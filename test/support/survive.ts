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
/** A request is told within 2 s that it is not answered; a busy machine may be as late again. */
const LATEST_MS = 4_000;
/** So that answers are stale only where a test wants them so: not after a fault of a minute. */
const MAX_LAG_SECONDS = 300;

/** The service over a chain that counts, for the tests of a file: who asks for it stops it. */
export const launchService = async (createDatabase?: (serverUrl: string) => Promise<string>) => {
  const directory = await mkdtemp(join(tmpdir(), "delegation-registry-faults-"));
  const options = { directory, chainIds: [1], apis: 1, maxLagSeconds: MAX_LAG_SECONDS };
  const service = await Service.start({ ...options, ...(createDatabase && { createDatabase }) });
  return {
    service,
    stop: async () => {
      await service.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
};

/**
 * Lets a fault happen while the service is asked, and expects what it always promises: no wrong answer, none missing
 * but for a 503 in time while the fault lasts, and recovery without hands, all blocks included.
 */
export const survive = async (service: Service, fault: Fault): Promise<{ refused: number }> => {
  const reports: Report[] = [];
  const load = { ports: service.ports, counters: service.counters, connections: CONNECTIONS, perSecond: PER_SECOND };
  const running = runLoad(load, (report) => reports.push(report));
  const answered = () => reports.reduce((sum, report) => sum + report.answered, 0);
  try {
    await until("it answers", async () => answered() > PER_SECOND, 20);
    const from = Date.now();
    await fault.run(service);
    const causeGone = Date.now();
    await service.untilRecovered();
    const recovered = Date.now();
    const before = answered();
    await until("it answers as before", async () => answered() > before + 2 * PER_SECOND, 20);

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
