import { spawn } from "node:child_process";
import { expect, onTestFinished, test } from "vitest";
import { isUp } from "../../../process/is-up.ts";
import { isPortFree } from "../../../process/ports.ts";
import { UNLIMITED } from "../../support/api.ts";
import { findPorts, startStack } from "../../support/local.ts";
import { listProcesses } from "../../support/processes.ts";
import { Random } from "../../support/random.ts";
import { ComparedChain } from "../../support/random-chain.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import { captureOutput, describeWithPrograms, findProgram, ROOT, renderScreen } from "../../support/run.ts";
import { createDatabase, waitUntil } from "../../support/setup.ts";

const expectFree = async ({ PORT, INDEXER_PORT }: Awaited<ReturnType<typeof findPorts>>) => {
  for (const port of [PORT, INDEXER_PORT]) expect(await isPortFree("127.0.0.1", Number(port))).toBe(true);
};

test("npm start runs indexer and API, restarts a killed API, and frees its ports on SIGTERM", async () => {
  const subject = await ComparedChain.create(8453, new Random(21));
  await subject.mineRandomBlocks(5);
  const ports = await findPorts();
  const started = startStack({
    DATABASE_URL: await createDatabase(),
    SHARD: "own",
    ...ports,
    POLLING_INTERVAL_MS: "200",
    PONDER_RPC_URL_8453: subject.local.url,
    START_BLOCK_8453: "0",
  });
  const url = `http://127.0.0.1:${ports.PORT}`;
  const isReady = () => isUp(`${url}/ready`);
  await waitUntil("it is ready", isReady, 120);
  await subject.expectSameAnswersOverHttp(url);

  const api = listProcesses().find(
    ({ command, environment }) => command.includes("api/main.ts") && environment.includes(`PORT=${ports.PORT}\0`),
  );
  process.kill(Number(api?.pid), "SIGKILL");
  await started.untilPrinted("The API ended with SIGKILL");
  await waitUntil("it is ready again", isReady);
  await subject.expectSameAnswersOverHttp(url);

  process.kill(started.pid, "SIGTERM");
  expect(await started.exited).toEqual({ code: 0, signal: null });
  await expectFree(ports);
});

describeWithPrograms(["script"], "npm start on a terminal", () => {
  test("shows the progress of each chain in place, then that it is live, and stops on Ctrl-C", async () => {
    const rpcs: Record<string, string> = {};
    let isHeld = true;
    for (const chainId of [1, 8453]) {
      const subject = await ComparedChain.create(chainId, new Random(chainId));
      await subject.mineRandomBlocks(40);
      const rpc = await startRpcProxy(subject.local.url);
      rpc.intercept = ({ method }) => (isHeld && method === "eth_getLogs" ? { status: 503 } : undefined);
      Object.assign(rpcs, { [`PONDER_RPC_URL_${chainId}`]: rpc.url, [`START_BLOCK_${chainId}`]: "0" });
    }
    const ports = await findPorts();
    const { output, printed } = captureOutput();
    // The program is a child of the terminal, which takes its size and keys from here.
    const command = "stty cols 100 rows 30; exec node --import tsx local/start.ts";
    const terminal = spawn(findProgram("script") ?? "", ["-qec", command, "/dev/null"], {
      cwd: ROOT,
      env: {
        ...{ PATH: process.env.PATH, HOME: process.env.HOME, HOST: "127.0.0.1", ...UNLIMITED, ...ports, ...rpcs },
        DATABASE_URL: await createDatabase(),
        POLLING_INTERVAL_MS: "200",
      },
    });
    terminal.stdout.pipe(output);
    const exited = new Promise((resolve) => terminal.once("exit", resolve));
    onTestFinished(async () => {
      terminal.kill();
      await exited;
    });
    const untilShown = (pattern: RegExp) =>
      waitUntil(
        `the terminal shows ${pattern}`,
        () => renderScreen(printed()),
        120,
        (lines) => pattern.test(lines.join("\n")),
      );

    // No more than a part of the history can be fetched.
    const during = await untilShown(
      /^Ethereum {2}\d+ of \d+ blocks fetched {2}\d+\.\d %.*\nBase {6}\d+ of \d+ blocks fetched {2}/m,
    );
    expect(during.filter((line) => / blocks (fetched|indexed) /.test(line))).toHaveLength(2);
    isHeld = false;
    const lines = await untilShown(/^Ethereum {2}live at block \d+\nBase {6}live at block \d+$/m);
    expect(lines.filter((line) => / blocks (fetched|indexed) /.test(line))).toEqual([]);

    terminal.stdin.write("\x03");
    expect(await exited).toBe(0);
    await expectFree(ports);
  });
});
