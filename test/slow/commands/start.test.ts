import { expect, test } from "vitest";
import { isUp } from "../../../stack/is-up.ts";
import { findFreePort, isPortFree } from "../../../stack/ports.ts";
import { runningProcesses } from "../../support/processes.ts";
import { Random } from "../../support/random.ts";
import { createDatabase, until } from "../../support/setup.ts";
import { start } from "../../support/start.ts";
import { Subject } from "../../support/subject.ts";

test("npm start runs indexer and API, restarts an API that died, and leaves nothing behind", async () => {
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
  await until("it is ready", isReady, 120);
  await subject.expectSameAnswersOverHttp(url);

  const api = runningProcesses().find(
    ({ command, environment }) => command.includes("api/main.ts") && environment.includes(`PORT=${port}\0`),
  );
  process.kill(Number(api?.pid), "SIGKILL");
  await until("the end of the API is logged", started.output, 60, (output) =>
    output.includes("The API ended with SIGKILL"),
  );
  await until("it is ready again", isReady);
  await subject.expectSameAnswersOverHttp(url);

  process.kill(started.pid, "SIGTERM");
  expect(await started.exited).toEqual({ code: 0, signal: null });
  for (const used of [port, indexerPort]) expect(await isPortFree("127.0.0.1", used)).toBe(true);
});
