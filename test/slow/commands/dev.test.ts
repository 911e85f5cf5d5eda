import { expect, test } from "vitest";
import { type Dev, listSandboxProcesses, resolveSandboxFolder, startDev } from "../../support/local.ts";
import { listProcesses } from "../../support/processes.ts";
import { waitUntil } from "../../support/setup.ts";

const FOLDER = resolveSandboxFolder("slow-test");

/** Finds the process with all of these texts in its arguments and environment. */
const findProcess = (...texts: string[]) =>
  listProcesses().find(({ command, environment }) => texts.every((text) => `${command}${environment}`.includes(text)))
    ?.pid;

test.for([
  ["The indexer", (dev: Dev) => findProcess("ponder.js\0start", `PORT=${dev.indexerPort}\0`)],
  ["The API", (dev: Dev) => findProcess("api/main.ts", `PORT=${dev.apiPort}\0`)],
  ["Postgres", () => findProcess("postgres\0-D\0", `SANDBOX_DATA=${FOLDER}\0`)],
] as const)("npm run dev ends with code 1 when a part of it is killed: %s", async ([name, findPid]) => {
  const dev = await startDev(FOLDER);
  await dev.untilReady();
  process.kill(Number(findPid(dev)), "SIGKILL");
  expect(await dev.exited).toBe(1);
  expect(dev.output()).toContain(`${name} exited unexpectedly`);
  await waitUntil(
    "no process is left",
    () => listSandboxProcesses(FOLDER),
    15,
    (left) => left.length === 0,
  );
});

test("npm run dev cleans up after a killed run, and refuses to run twice", async () => {
  const killed = await startDev(FOLDER);
  await killed.untilReady();
  killed.signal("SIGKILL");
  await killed.exited;

  const dev = await startDev(FOLDER);
  await dev.untilReady();
  const ports = { SANDBOX_PORT: dev.chainPort, INDEXER_PORT: dev.indexerPort, PORT: dev.apiPort };
  const taken = Object.fromEntries(Object.entries(ports).map(([name, port]) => [name, String(port)]));
  const [busy, second] = [await startDev(FOLDER, taken), await startDev(FOLDER)];
  expect(await busy.exited).toBe(1);
  for (const port of dev.ports) expect(busy.output()).toMatch(new RegExp(`port ${port}, for .*, is in use`));
  expect(await second.exited).toBe(1);
  expect(second.output()).toContain("It is running already");
  for (const { output } of [busy, second]) expect(output()).not.toMatch(/^\s+at /m);
});
