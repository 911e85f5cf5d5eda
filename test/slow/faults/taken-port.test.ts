import { chmod, mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { expect, onTestFinished, test, vi } from "vitest";
import { startEmbeddedPostgres } from "../../../local/embedded-postgres.ts";
import { findFreePort } from "../../../process/ports.ts";

// The port that is looked for first is taken by another program before Postgres can bind it.
vi.mock("../../../process/ports.ts", async (load) => {
  const ports = await load<typeof import("../../../process/ports.ts")>();
  const findAndTakePort = async () => {
    const port = await ports.findFreePort();
    const server = createServer().listen(port, "127.0.0.1");
    onTestFinished(() => void server.close());
    return port;
  };
  return { ...ports, findFreePort: vi.fn(ports.findFreePort).mockImplementationOnce(findAndTakePort) };
});

test("startEmbeddedPostgres() takes another port when its port is taken before the server binds it", async () => {
  const directory = await mkdtemp(join(tmpdir(), "delegation-registry-port-"));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  // Postgres does not run as root, and its user needs access.
  await chmod(directory, 0o755);
  const postgres = await startEmbeddedPostgres({ directory: join(directory, "postgres"), disposable: true });
  onTestFinished(() => postgres.stop());

  expect(findFreePort).toHaveBeenCalledTimes(2);
  const client = new pg.Client(postgres.url);
  await client.connect();
  await client.end();
  expect(await postgres.isRunning()).toBe(true);
});
