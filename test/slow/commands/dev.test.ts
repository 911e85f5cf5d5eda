import { expect, test } from "vitest";
import { type Dev, listSandboxProcesses, resolveSandboxFolder, startDev } from "../../support/local.ts";
import { listProcesses } from "../../support/processes.ts";
import { waitUntil } from "../../support/setup.ts";

const FOLDER = resolveSandboxFolder("slow-test");

/** Kills the process with all of these texts in its arguments and environment, and expects the sandbox to end. */
const expectEndWithout = async (dev: Dev, name: string, ...texts: string[]) => {
  const part = listProcesses().find(({ command, environment }) =>
    texts.every((text) => `${command}${environment}`.includes(text)),
  );
  process.kill(Number(part?.pid), "SIGKILL");
  expect(await dev.exited).toBe(1);
  expect(dev.output()).toContain(`${name} exited unexpectedly`);
  await waitUntil(
    "no process is left",
    () => listSandboxProcesses(FOLDER),
    15,
    (left) => left.length === 0,
  );
};

test("npm run dev ends with code 1 when its indexer is killed", async () => {
  const dev = await startDev(FOLDER);
  await dev.untilReady();
  await expectEndWithout(dev, "The indexer", "ponder.js\0start", `PORT=${dev.indexerPort}\0`);
});

test("npm run dev ends with code 1 when its API is killed", async () => {
  const dev = await startDev(FOLDER);
  await dev.untilReady();
  await expectEndWithout(dev, "The API", "api/main.ts", `PORT=${dev.apiPort}\0`);
});

test("npm run dev refuses to run twice, cleans up after a killed run, and ends with code 1 when its Postgres is killed", async () => {
  const killed = await startDev(FOLDER);
  await killed.untilReady();
  const ports = { SANDBOX_PORT: killed.chainPort, INDEXER_PORT: killed.indexerPort, PORT: killed.apiPort };
  const taken = Object.fromEntries(Object.entries(ports).map(([name, port]) => [name, String(port)]));
  const [busy, second] = [await startDev(FOLDER, taken), await startDev(FOLDER)];
  expect(await busy.exited).toBe(1);
  for (const port of killed.ports) expect(busy.output()).toMatch(new RegExp(`port ${port}, for .*, is in use`));
  expect(await second.exited).toBe(1);
  expect(second.output()).toContain("It is running already");
  for (const { output } of [busy, second]) expect(output()).not.toMatch(/^\s+at /m);

  killed.signal("SIGKILL");
  await killed.exited;
  const dev = await startDev(FOLDER);
  await dev.untilReady();
  await expectEndWithout(dev, "Postgres", "postgres\0-D\0", `SANDBOX_DATA=${FOLDER}\0`);
});
