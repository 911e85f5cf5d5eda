import { execFile } from "node:child_process";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { startEmbeddedPostgres } from "../../../local/embedded-postgres.ts";
import { ComparedChain } from "../../support/compared-chain.ts";
import { crashPostgres } from "../../support/crash-postgres.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { findIndexes } from "../../support/index-state.ts";
import { startIndexerProcess } from "../../support/indexer.ts";
import { Random } from "../../support/random.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import { waitUntil, waitUntilIndexed } from "../../support/setup.ts";

// Ponder does not wait until its rows are on disk: a Postgres that crashes loses the newest ones, but Ponder continues
// as if they were stored. A standby that takes over before it has received everything lacks them too.

/** Longest time that Postgres can be set to keep rows only in memory. */
const KEPT_IN_MEMORY_MS = 10_000;
const CRASHES = 2;

/** Copies a stopped cluster and its owner, which the server checks. */
const copyCluster = async (from: string, to: string) => {
  await rm(to, { recursive: true, force: true });
  await promisify(execFile)("cp", ["-a", from, to]);
};

/** Starts a Postgres that loses the rows of the last seconds when it crashes. */
const startForgetfulPostgres = async () => {
  const folder = await mkdtemp(join(tmpdir(), "delegation-registry-forgets-"));
  // Postgres does not run as root, and its user needs access.
  await chmod(folder, 0o755);
  const directory = join(folder, "postgres");
  let postgres = await startEmbeddedPostgres({ directory });
  const { url } = postgres;
  const start = async () => {
    postgres = await startEmbeddedPostgres({ directory, preferredPort: Number(new URL(url).port) });
  };
  const withClient = async <T>(run: (client: pg.Client) => Promise<T>): Promise<T> => {
    const client = new pg.Client(url);
    client.on("error", () => {});
    await client.connect();
    return run(client).finally(() => client.end().catch(() => {}));
  };
  const data = await withClient(async (client) => {
    await client.query(`alter system set wal_writer_delay = ${KEPT_IN_MEMORY_MS}`);
    await client.query("alter system set wal_writer_flush_after = '1GB'");
    await client.query("select pg_reload_conf()");
    // Differs from the directory if the server's user has no access to it.
    const { rows } = await client.query("show data_directory");
    return String(rows[0].data_directory);
  });
  const copy = `${data}-copy`;
  onTestFinished(async () => {
    await postgres.stop();
    for (const path of [folder, data, copy]) await rm(path, { recursive: true, force: true });
  });
  return {
    url,
    withClient,
    crash: async () => {
      await withClient((client) => crashPostgres(client, directory));
      await start();
    },
    /** Copies the cluster. */
    keepCopy: async () => {
      await postgres.stop();
      await copyCluster(data, copy);
      await start();
    },
    /** Fails over to a standby that has the copy and nothing newer. */
    takeCopy: async () => {
      await withClient((client) => crashPostgres(client, directory));
      await copyCluster(copy, data);
      await writeFile(join(data, "standby.signal"), "");
      await start();
      await withClient((client) => client.query("select pg_promote()"));
    },
  };
};

/** Indexes a chain with random blocks in such a Postgres. */
const indexIn = async (postgres: Awaited<ReturnType<typeof startForgetfulPostgres>>, seed: number, blocks: number) => {
  const subject = await ComparedChain.create(8453, new Random(seed));
  await subject.mineRandomBlocks(blocks);
  const rpc = await startRpcProxy(subject.local.url);
  const chain = { chainId: subject.local.chainId, url: rpc.url };
  const indexer = await startIndexerProcess({ databaseUrl: postgres.url, chains: [chain] });
  return {
    subject,
    indexer,
    rpc,
    caughtUp: () => postgres.withClient((client) => waitUntilIndexed(client, subject.local, { seconds: 120 })),
    newest: () =>
      postgres.withClient(async (client) => {
        const blocks = await client.query(`select number::int from ${await readServedSchema(client)}.indexed_block`);
        return Number(blocks.rows[0]?.number ?? 0);
      }),
    /** Counts the stored changes. */
    changes: () =>
      postgres.withClient(async (client) => {
        const [schema] = await findIndexes(client);
        if (!schema) return 0;
        const log = await client
          .query(`select count(*)::int from ${schema}.delegation_change`)
          .catch(() => ({ rows: [] }));
        return Number(log.rows[0]?.count ?? 0);
      }),
  };
};

/** Makes requests for the logs of later blocks wait until they are released. */
const holdLogsAfter = (rpc: Awaited<ReturnType<typeof startRpcProxy>>, block: number) => {
  let held = 0;
  let release = () => {};
  const released = new Promise<undefined>((resolve) => {
    release = () => resolve(undefined);
  });
  rpc.intercept = ({ method, params }) => {
    const isLater = method === "eth_getLogs" && Number((params[0] as { toBlock?: string }).toBlock) > block;
    if (!isLater) return undefined;
    held++;
    return released;
  };
  return { isHolding: () => held > 0, release };
};

test("the index has every published block after Postgres crashes, and after a lagging standby takes over", async () => {
  const postgres = await startForgetfulPostgres();
  const { subject, indexer, caughtUp, newest } = await indexIn(postgres, 53, 4);
  for (let crash = 0; crash < CRASHES; crash++) {
    await caughtUp();
    await subject.mineRandomBlocks(2);
    await caughtUp();
    const before = await newest();
    await postgres.crash();
    expect(await newest()).toBe(before);
    await subject.mineRandomBlocks(2);
    await caughtUp();
    await subject.expectSameAnswers(postgres.url, "registry", [1, 3]);
  }
  expect(indexer.output()).not.toContain("starting it again");

  await postgres.keepCopy();
  const kept = await newest();
  await subject.mineRandomBlocks(3);
  await caughtUp();
  expect(await newest()).toBeGreaterThan(kept);
  await postgres.takeCopy();
  await subject.mineRandomBlocks(2);
  await caughtUp();
  await subject.expectSameAnswers(postgres.url, "registry", [1, 3, 5]);
  expect(indexer.output()).toContain("another Postgres has taken over");
});

test("a backfill misses nothing when Postgres crashes", async () => {
  const postgres = await startForgetfulPostgres();
  const { subject, indexer, caughtUp, changes } = await indexIn(postgres, 59, 150);
  const before = await waitUntil("a part of history is stored", changes);
  await postgres.crash();
  expect(await changes()).toBeGreaterThanOrEqual(before);

  await caughtUp();
  await subject.expectSameAnswers(postgres.url, "registry", [1, 40, 100]);
  expect(indexer.output()).toContain("The connection to the database was lost");
});

test("a backfill misses nothing when a lagging standby takes over", async () => {
  const postgres = await startForgetfulPostgres();
  const { subject, indexer, rpc, caughtUp, changes } = await indexIn(postgres, 67, 150);
  let hold = holdLogsAfter(rpc, 30);
  const kept = await waitUntil("a part of history is stored", async () => (hold.isHolding() ? changes() : 0));
  // While the indexer is suspended, Postgres itself stops Ponder from storing rows after a gap. Ponder waits for logs when
  // Postgres ends: in the middle of an event, it would end by itself.
  process.kill(indexer.pid, "SIGSTOP");
  try {
    await postgres.keepCopy();
    expect(await changes()).toBe(kept);
    const { release } = hold;
    hold = holdLogsAfter(rpc, 80);
    release();
    const isMoreStored = async () => hold.isHolding() && (await changes()) > kept;
    await waitUntil("more of history is stored", isMoreStored);
    await postgres.takeCopy();
    expect(await changes()).toBe(kept);
    hold.release();
    await waitUntil("Ponder was refused", () => indexer.output().includes("another Postgres has taken over"));
    expect(await changes()).toBe(kept);
  } finally {
    hold.release();
    process.kill(indexer.pid, "SIGCONT");
  }

  await caughtUp();
  await subject.expectSameAnswers(postgres.url, "registry", [1, 40, 100]);
});
