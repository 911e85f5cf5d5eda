import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startNode } from "../../stack/child.ts";
import { isUp } from "../../stack/is-up.ts";
import { findFreePort, isPortFree } from "../../stack/ports.ts";
import { UNLIMITED } from "../support/api.ts";
import { keepOutput } from "../support/output.ts";
import { runningProcesses } from "../support/processes.ts";
import { Random } from "../support/random.ts";
import { createDatabase, until } from "../support/setup.ts";
import { Subject } from "../support/subject.ts";

/** `npm start`. */
const start = (env: NodeJS.ProcessEnv) => {
  const { output, printed } = keepOutput();
  const child = startNode(join(import.meta.dirname, "../../start.ts"), [], {
    output,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, HOST: "127.0.0.1", ...UNLIMITED, ...env },
  });
  onTestFinished(() => child.stop());
  return { ...child, output: printed };
};

test("npm start without usable settings names those of every part at once, and ends with code 1", async () => {
  const started = start({ PORT: "eighty", MAX_INDEX_LAG_SECONDS: "-1", DATABASE_URL: "mysql://x", LOG_LEVEL: "loud" });
  expect(await started.exited).toEqual({ code: 1, signal: null });
  for (const problem of [
    /PORT must be/,
    /MAX_INDEX_LAG_SECONDS must be/,
    /DATABASE_URL must be/,
    /set PONDER_RPC_URL_<chainId>/,
  ]) {
    expect(started.output()).toMatch(problem);
  }
  expect(started.output().match(/LOG_LEVEL must be/g)).toHaveLength(1);
  expect(started.output()).not.toMatch(/^\s+at /m);
});

test("npm start runs indexer and API, brings an API that died back, and leaves nothing behind", async () => {
  const subject = await Subject.create(8453, new Random(21));
  await subject.mineRandomBlocks(5);
  const [port, indexerPort, metricsPort] = [await findFreePort(), await findFreePort(), await findFreePort()];
  const started = start({
    DATABASE_URL: await createDatabase(),
    SHARD: "own",
    PORT: String(port),
    INDEXER_PORT: String(indexerPort),
    METRICS_PORT: String(metricsPort),
    POLLING_INTERVAL_MS: "200",
    PONDER_RPC_URL_8453: subject.local.url,
    START_BLOCK_8453: "0",
  });
  const url = `http://127.0.0.1:${port}`;
  const isReady = () => isUp(`${url}/ready`);
  await until("it is ready", isReady);
  await subject.expectSameAnswersOverHttp(url);

  const api = runningProcesses().find(
    ({ command, environment }) => command.includes("api/main.ts") && environment.includes(`PORT=${port}\0`),
  );
  process.kill(Number(api?.pid), "SIGKILL");
  await until("it says so", async () => started.output().includes("The API ended with SIGKILL"));
  await until("it is ready again", isReady);
  await subject.expectSameAnswersOverHttp(url);

  process.kill(started.pid, "SIGTERM");
  expect(await started.exited).toEqual({ code: 0, signal: null });
  for (const used of [port, indexerPort]) expect(await isPortFree("127.0.0.1", used)).toBe(true);
});
