import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { FRESH_FOR_A_DAY, startTestApi } from "../../support/api.ts";
import { createRoleSettings, runRoles } from "../../support/commands.ts";
import { readServedSchema } from "../../support/index-copy.ts";
import { startIndexer } from "../../support/indexer.ts";
import { addKey } from "../../support/keys.ts";
import { seededRandom } from "../../support/random.ts";
import { ComparedChain } from "../../support/random-chain.ts";
import { describeWithPrograms } from "../../support/run.ts";
import { connectClient, createDatabase, generateName, waitUntil, waitUntilIndexed } from "../../support/setup.ts";
import { SYSTEM_POSTGRES, startSystemPostgres } from "../../support/system-postgres.ts";

describeWithPrograms(SYSTEM_POSTGRES, "a backup by pg_dump", () => {
  test("of a live database, restored into a new cluster of a newer Postgres, gives the same answers and goes on from there", async () => {
    const subject = await ComparedChain.create(8453, seededRandom(import.meta.filename));
    await subject.mineRandomBlocks(20);
    const postgres = await startSystemPostgres();
    onTestFinished(postgres.stop);
    const source = await connectClient(postgres.url);
    const indexer = await startIndexer({ databaseUrl: postgres.url, chains: [subject.local] });
    const api = await startTestApi({ databaseUrl: postgres.url, env: FRESH_FOR_A_DAY });
    const { key } = await addKey(source, "backed up");
    await waitUntilIndexed(source, subject.local);
    await waitUntil("the API is ready", async () => (await api.get("/ready")).ok);
    const block = await subject.local.client.getBlockNumber();
    await subject.expectSameAnswersOverHttp(api.url, key, { block });

    // The chain goes on while the dump is made.
    const file = join(tmpdir(), generateName("backup"));
    onTestFinished(() => rm(file, { force: true }));
    const dumping = postgres.runClient("pg_dump", "--format=custom", `--file=${file}`, postgres.url);
    await subject.mineRandomBlocks(3);
    await dumping;
    const schema = await readServedSchema(source);
    await api.stop();
    await indexer.stop();
    await source.end();

    const databaseUrl = await createDatabase();
    await postgres.runClient("pg_restore", "--no-owner", "--no-privileges", "--exit-on-error", "-d", databaseUrl, file);
    const { env, urls } = createRoleSettings(databaseUrl);
    expect((await runRoles(env)).code).toBe(0);
    const restored = await connectClient(databaseUrl);
    const again = await startTestApi({ databaseUrl: urls.api, env: FRESH_FOR_A_DAY });
    await waitUntil("the API is ready", async () => (await again.get("/ready")).ok);
    // The restored block, until an indexer runs.
    const { rows } = await restored.query("select number from registry.indexed_block");
    expect(Number(rows[0].number)).toBeGreaterThanOrEqual(Number(block));
    await subject.expectSameAnswersOverHttp(again.url, key, { block: BigInt(rows[0].number) });

    await subject.mineRandomBlocks(3);
    const resumed = await startIndexer({ databaseUrl: urls.indexer, chains: [subject.local] });
    await waitUntilIndexed(restored, subject.local, { seconds: 90 });
    await waitUntil("the API is ready", async () => (await again.get("/ready")).ok);
    await subject.expectSameAnswersOverHttp(again.url, key);
    expect(await readServedSchema(restored)).toBe(schema);
    expect(resumed.output()).toContain("Detected crash recovery");
    expect(resumed.output()).not.toContain("Created database tables");
  });
});
