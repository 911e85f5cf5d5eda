import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { startEmbeddedPostgres } from "../../stack/embedded-postgres.ts";
import { crashPostgres } from "../support/crash-postgres.ts";
import { Random } from "../support/random.ts";
import { startIndexer, until, untilIndexed } from "../support/setup.ts";
import { Subject } from "../support/subject.ts";

// Ponder does not wait until what it stores is on disk: a Postgres that crashes comes back without the newest of it,
// while Ponder goes on as if it were there. So does one whose standby takes over.

/** So long Postgres may leave what was stored in memory: the longest that it can be told. */
const KEPT_IN_MEMORY_MS = 10_000;
const TRIES = 8;

/** A Postgres that forgets what was stored in the last seconds before it crashes. */
const startForgetfulPostgres = async () => {
  const folder = await mkdtemp(join(tmpdir(), "delegation-registry-forgets-"));
  const directory = join(folder, "postgres");
  let postgres = await startEmbeddedPostgres({ directory });
  const { url } = postgres;
  onTestFinished(async () => {
    await postgres.stop();
    await rm(folder, { recursive: true, force: true });
  });
  const withClient = async <T>(run: (client: pg.Client) => Promise<T>): Promise<T> => {
    const client = new pg.Client(url);
    client.on("error", () => {});
    await client.connect();
    return run(client).finally(() => client.end().catch(() => {}));
  };
  await withClient(async (client) => {
    await client.query(`alter system set wal_writer_delay = ${KEPT_IN_MEMORY_MS}`);
    await client.query("alter system set wal_writer_flush_after = '1GB'");
    await client.query("select pg_reload_conf()");
  });
  return {
    url,
    withClient,
    crash: async () => {
      await withClient((client) => crashPostgres(client, directory));
      postgres = await startEmbeddedPostgres({ directory, preferredPort: Number(new URL(url).port) });
    },
  };
};

test("postgres-forgets: the newest blocks, which are indexed again before anything after them", async () => {
  const subject = await Subject.create(8453, new Random(53));
  await subject.mineRandomBlocks(4);
  const postgres = await startForgetfulPostgres();
  const indexer = await startIndexer({ databaseUrl: postgres.url, chains: [subject.local] });
  const caughtUp = () => postgres.withClient((client) => untilIndexed(client, subject.local, { seconds: 90 }));
  const newest = () =>
    postgres.withClient(async (client) => {
      const { rows } = await client.query("select schema from indexer.shard");
      const blocks = await client.query(`select number::int from ${rows[0].schema}.indexed_block`);
      return Number(blocks.rows[0]?.number ?? 0);
    });

  let hasForgotten = false;
  for (let attempt = 0; attempt < TRIES && !hasForgotten; attempt++) {
    await caughtUp();
    await subject.mineRandomBlocks(2);
    await caughtUp();
    const before = await newest();
    await postgres.crash();
    hasForgotten = (await newest()) < before;
    await subject.mineRandomBlocks(2);
    await caughtUp();
    await subject.expectSameAnswers(postgres.url, "registry", [1, 3]);
  }
  expect(hasForgotten).toBe(true);
  expect(indexer.output()).toContain("Postgres has lost what was stored last");
});

test("postgres-forgets: history, of which nothing is missing in the end", async () => {
  const subject = await Subject.create(8453, new Random(59));
  await subject.mineRandomBlocks(150);
  const postgres = await startForgetfulPostgres();

  const changes = () =>
    postgres.withClient(async (client) => {
      const { rows } = await client.query(
        "select nspname from pg_namespace where nspname ~ '^registry_[0-9a-f]{10}$' limit 1",
      );
      if (!rows[0]) return 0;
      const log = await client
        .query(`select count(*)::int from ${rows[0].nspname}.delegation_change`)
        .catch(() => ({ rows: [] }));
      return Number(log.rows[0]?.count ?? 0);
    });
  const indexer = await startIndexer({ databaseUrl: postgres.url, chains: [subject.local] });
  await until("a part of history is stored", async () => (await changes()) > 0, 60);
  const before = await changes();
  await postgres.crash();
  const after = await changes();
  console.log(`${before} changes were stored, ${after} were kept`);

  await postgres.withClient((client) => untilIndexed(client, subject.local, { seconds: 120 }));
  await subject.expectSameAnswers(postgres.url, "registry", [1, 40, 100]);
  expect(indexer.output()).toContain("The connection to the database was lost");
});
