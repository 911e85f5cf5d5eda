import { expect, onTestFinished, test } from "vitest";
import { startIndexer } from "../../support/indexer.ts";
import { seededRandom } from "../../support/random.ts";
import { ComparedChain } from "../../support/random-chain.ts";
import { connectClient, createDatabase, waitUntilIndexed } from "../../support/setup.ts";
import { startTcpRelay } from "../../support/tcp-relay.ts";

// Ponder retries a transaction when its commit fails, but keeps the failed attempt in its cache: to the handlers
// everything looks stored already.

const STORES_CHANGES = /(insert into|copy) "[^"]+"\."delegation_change"/i;
const COMMIT = /commit\0/;

/** Moment at which the connection breaks: before Postgres reads the commit, or before Ponder reads its reply. */
type LostAt = "commit" | "reply";

/** Starts a second address of a database that breaks Ponder's connection during a commit, on request. */
const startLossyDatabase = async (databaseUrl: string) => {
  const url = new URL(databaseUrl);
  let lostAt: LostAt | null = null;

  const relay = await startTcpRelay(
    { host: url.hostname, port: Number(url.port) },
    {
      onConnection: (client, server) => {
        let hasChanges = false;
        let isLost = false;
        client.on("data", (chunk) => {
          const text = chunk.toString("latin1");
          hasChanges ||= STORES_CHANGES.test(text);
          const isCommit = COMMIT.test(text);
          if (isCommit && hasChanges && lostAt !== null) {
            isLost = true;
            if (lostAt === "commit") client.destroy();
            else server.write(chunk);
            lostAt = null;
            return;
          }
          if (isCommit) hasChanges = false;
          server.write(chunk);
        });
        // The reply to a lost commit confirms it; Ponder must not read it.
        server.on("data", (chunk) => (isLost ? client.destroy() : client.write(chunk)));
      },
    },
  );
  onTestFinished(relay.stop);

  url.port = String(relay.port);
  return {
    url: url.href,
    /** Breaks the next commit of a transaction in which Ponder stores changes. */
    breakNextCommit: (at: LostAt) => {
      lostAt = at;
    },
    hasBroken: () => lostAt === null,
  };
};

/** Ponder backfills final blocks in ranges. */
const BLOCKS_UNTIL_FINAL = 65;

test.each<LostAt>(["commit", "reply"])(
  "an index agrees with the registries after a lost %s during backfill and live",
  async (lostAt) => {
    const random = seededRandom(import.meta.filename);
    const subject = await ComparedChain.create(1, random);
    subject.questions = subject.questions.filter(() => random.chance(0.3));
    await subject.mineRandomBlocks(6);
    for (let block = 0; block < BLOCKS_UNTIL_FINAL; block++) await subject.local.client.mine({ blocks: 1 });
    const databaseUrl = await createDatabase();
    const lossy = await startLossyDatabase(databaseUrl);
    const database = await connectClient(databaseUrl);

    const startBackfill = () => startIndexer({ databaseUrl: lossy.url, chains: [subject.local] });
    const mineLive = () => subject.mineRandomBlocks(4);
    for (const store of [startBackfill, mineLive]) {
      lossy.breakNextCommit(lostAt);
      await store();
      await waitUntilIndexed(database, subject.local, { seconds: 120 });
      expect(lossy.hasBroken()).toBe(true);
      await subject.expectSameAnswers(databaseUrl, "registry", [1, 3]);
    }
  },
);
