import { spawn } from "node:child_process";
import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { findEmbeddedPostgres } from "../../../local/embedded-postgres.ts";
import { isUp } from "../../../process/is-up.ts";
import { copyProject, findPorts, startStack } from "../../support/local.ts";
import { listProcesses } from "../../support/processes.ts";
import { Random } from "../../support/random.ts";
import { ComparedChain } from "../../support/random-chain.ts";
import { waitUntil } from "../../support/setup.ts";

// `npm start` with its own Postgres, in a copy of the project.

const setUp = async (seed: number) => {
  const project = await copyProject();
  const random = new Random(seed);
  const subject = await ComparedChain.create(8453, random);
  // Lists, which hold everything, are always compared.
  subject.questions = subject.questions.filter(() => random.chance(0.1));
  await subject.mineRandomBlocks(5);
  const ports = await findPorts();
  const url = `http://127.0.0.1:${ports.PORT}`;
  const env = {
    ...ports,
    POLLING_INTERVAL_MS: "200",
    PONDER_RPC_URL_8453: subject.local.url,
    START_BLOCK_8453: "0",
  };
  return {
    project,
    start: () => startStack(env, project.directory),
    mine: () => subject.mineRandomBlocks(3),
    /** Waits until it answers at the newest block, and compares its answers with the registry's own. */
    expectAnswers: async () => {
      await waitUntil("it is ready", () => isUp(`${url}/ready`), 120);
      const newest = Number(await subject.local.client.getBlockNumber());
      const readBlock = async () => {
        const { chains } = (await (await fetch(`${url}/status`)).json()) as { chains: { indexedBlock: number }[] };
        return chains[0]?.indexedBlock;
      };
      await waitUntil("the newest block is indexed", readBlock, 60, (block) => block === newest);
      await subject.expectSameAnswersOverHttp(url);
    },
  };
};

const readPort = async (data: string) => (await readFile(join(data, "postmaster.pid"), "utf8")).split("\n")[3];

test("npm start starts its killed Postgres again, on the same port, and answers come back", async () => {
  const { project, start, mine, expectAnswers } = await setUp(31);
  const started = start();
  await expectAnswers();

  const [pid, port] = [await project.readPostgresPid(), await readPort(project.data)];
  process.kill(pid, "SIGKILL");
  await started.untilPrinted("The embedded Postgres has ended; starting it again in 1 s.");
  await mine();
  await expectAnswers();
  const newPid = await project.readPostgresPid();
  expect(newPid).not.toBe(pid);
  expect(await readPort(project.data)).toBe(port);

  // Postgres itself recovers from the loss of a backend: it closes all connections and replays its log.
  const backends = listProcesses().filter(({ parent, command }) => parent === newPid && / idle/.test(command));
  process.kill(Number(backends[0]?.pid), "SIGKILL");
  const isClosed = () => {
    const running = new Set(listProcesses().map(({ pid }) => pid));
    return !backends.some(({ pid }) => running.has(pid));
  };
  await waitUntil("all connections are closed", isClosed);
  await mine();
  await expectAnswers();
  expect(await project.readPostgresPid()).toBe(newPid);

  process.kill(-started.pid, "SIGINT");
  expect(await started.exited).toEqual({ code: 0, signal: null });
  expect(project.listProcesses()).toEqual([]);
});

test("npm start leaves no process behind when it is killed, and the next one recovers at once", async () => {
  const { project, start, mine, expectAnswers } = await setUp(32);
  const killed = start();
  await expectAnswers();
  process.kill(killed.pid, "SIGKILL");
  await killed.exited;

  const next = start();
  await mine();
  await expectAnswers();
  process.kill(next.pid, "SIGKILL");
  await project.untilNoneIsLeft();
});

/** Starts `npm start` without an RPC that answers: it waits, with its Postgres running. */
const startWaiting = async (directory: string) => {
  const started = startStack({ ...(await findPorts()), PONDER_RPC_URL_1: "http://127.0.0.1:1" }, directory);
  await started.untilPrinted("no RPC endpoint answers");
  return started;
};

test("npm start recovers when everything was killed and another process has the pid of its Postgres", async () => {
  const project = await copyProject();
  const killed = await startWaiting(project.directory);
  for (const { pid } of project.listProcesses()) process.kill(pid, "SIGKILL");
  await killed.exited;

  const { uid } = await stat(project.data);
  const other = spawn("sleep", ["600"], { uid });
  onTestFinished(() => {
    other.kill();
  });
  const file = join(project.data, "postmaster.pid");
  await writeFile(file, (await readFile(file, "utf8")).replace(/^\d+/, String(other.pid)));
  await startWaiting(project.directory);
  expect(await findEmbeddedPostgres(project.data)).not.toBeNull();
  expect(other.exitCode).toBeNull();
});

test("npm start waits longer before it starts its Postgres again when that ends twice within 30 s", async () => {
  const project = await copyProject();
  const started = await startWaiting(project.directory);
  const pid = await project.readPostgresPid();
  process.kill(pid, "SIGKILL");
  await started.untilPrinted("The embedded Postgres has ended; starting it again in 1 s.");
  const isBack = async () => (await findEmbeddedPostgres(project.data)) !== null;
  await waitUntil("Postgres is back", isBack, 15);
  process.kill(await project.readPostgresPid(), "SIGKILL");
  await started.untilPrinted("; starting it again in 2 s.");
  await waitUntil("Postgres is back again", isBack, 15);
});

test("Ctrl-C leaves no process behind, 0, 1.0 and 1.2 s after Postgres was found dead", async () => {
  const project = await copyProject();
  for (const ms of [0, 1_000, 1_200]) {
    const started = await startWaiting(project.directory);
    process.kill(await project.readPostgresPid(), "SIGKILL");
    await started.untilPrinted("The embedded Postgres has ended");
    await sleep(ms);
    // As from a terminal: to the whole process group.
    process.kill(-started.pid, "SIGINT");
    expect(await started.exited, `after ${ms} ms`).toEqual({ code: 0, signal: null });
    expect(project.listProcesses(), `after ${ms} ms`).toEqual([]);
  }
});
