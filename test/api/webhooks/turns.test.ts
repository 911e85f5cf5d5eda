import { pino } from "pino";
import type { Address } from "viem";
import { expect, onTestFinished } from "vitest";
import { ChangeFeed } from "../../../api/changes/change-feed.ts";
import { Database } from "../../../api/database/database.ts";
import { migrate } from "../../../api/database/migrate.ts";
import { SlidingWindow } from "../../../api/limits/sliding-window.ts";
import { createMetrics } from "../../../api/metrics/metrics.ts";
import { parseApiSettings } from "../../../api/settings.ts";
import { Shards } from "../../../api/shards/shards.ts";
import type { Outcome } from "../../../api/webhooks/send-message.ts";
import { WebhookWorker } from "../../../api/webhooks/webhook-worker.ts";
import { askForTest, createWebhook, deleteWebhook, listWebhooks } from "../../../api/webhooks/webhooks.ts";
import { FRESH_FOR_A_DAY } from "../../support/api.ts";
import { waitUntil } from "../../support/setup.ts";
import { test } from "../../support/test.ts";
import { addBlocks, vaultNumber } from "../../support/webhooks.ts";

// Who is served when there are few places. The tests answer the messages, so no clock decides.

type Sent = { url: string; answer: (milliseconds?: number) => void };

/** Starts a worker with turns of one message. */
const startWorker = async (
  databaseUrl: string,
  places: { all: number; quick: number; slow: number; asked: number },
  placesPerOwner = places.all,
) => {
  await migrate(databaseUrl);
  const log = pino({ enabled: false });
  const database = new Database(databaseUrl, log);
  const settings = parseApiSettings(FRESH_FOR_A_DAY);
  const shards = new Shards(database, settings);
  const limiter = new SlidingWindow(settings.limit);
  const { changes, webhooks } = createMetrics({ database, primary: database, shards, limiter, version: "" });
  const stopping = new AbortController();
  await shards.watch(stopping.signal, log);
  const feed = new ChangeFeed({ database, shards, load: changes, onError: () => {} });
  const sent: Sent[] = [];
  const send = ({ url }: { url: string }) =>
    new Promise<Outcome>((resolve) => {
      const answer = (milliseconds = 5) =>
        resolve({ isDelivered: true, status: 200, error: null, answer: null, milliseconds });
      sent.push({ url, answer });
    });
  const limits = { places, placesPerOwner, turnMs: 0 };
  const worker = new WebhookWorker({ database, shards, feed, send, load: webhooks, log, limits });
  worker.start();
  onTestFinished(async () => {
    const stopped = worker.stop();
    for (const { answer } of sent) answer();
    await stopped;
    feed.stop();
    stopping.abort();
    for (const { id } of await listWebhooks(database, null)) await deleteWebhook(database, id, null);
    await database.close();
  });
  const sentTo = (name: string) => sent.filter(({ url }) => url.startsWith(`https://${name}`));
  return {
    sent,
    sentTo,
    waitForSent: (name: string) => waitUntil(`a message is sent to ${name}`, () => sentTo(name).length > 0),
    /** Makes a webhook of the whole log of a vault. */
    make: async (name: string, vault: Address, owner: string | null = null) => {
      const filters = { registry: "both", vault } as const;
      const question = { url: `https://${name}`, chainId: [1], finality: "latest", cursor: "start", filters } as const;
      const made = await createWebhook(database, { ...question, owner }, 5);
      return typeof made === "object" ? made.id : expect.fail(made);
    },
    ask: (id: string) => askForTest(database, id),
    waitForActive: (count: number) =>
      waitUntil(`the worker knows ${count} webhooks`, () => webhooks.webhooks?.active === count),
  };
};

test("a webhook with more messages waits for its next turn when another one has some", async ({
  databaseUrl,
  database,
}) => {
  const [vault, other] = [vaultNumber(1), vaultNumber(2)];
  await addBlocks(database, [vault, vault, vault, other]);
  const worker = await startWorker(databaseUrl, { all: 1, quick: 1, slow: 1, asked: 1 });
  await worker.make("long.example", vault);
  await worker.waitForSent("long.example");
  await worker.make("short.example", other);
  await worker.waitForActive(2);
  worker.sent[0]?.answer();
  await waitUntil("the next one is sent", () => worker.sent.length === 2);
  expect(worker.sent[1]?.url).toBe("https://short.example");
});

test("receivers that answer slowly take some of the places only, however many they are", async ({
  databaseUrl,
  database,
}) => {
  const [vault, other] = [vaultNumber(3), vaultNumber(4)];
  await addBlocks(database, Array(10).fill(vault));
  const worker = await startWorker(databaseUrl, { all: 4, quick: 4, slow: 2, asked: 1 });
  const names = Array.from({ length: 8 }, (_, index) => `slow${index}.example`);
  for (const name of names) await worker.make(name, vault);
  for (const name of names) {
    await waitUntil(`a message is sent to ${name}`, () => {
      if (worker.sentTo(name).length > 0) return true;
      for (const { answer } of worker.sent) answer(3_000);
      return false;
    });
  }
  for (const { answer } of worker.sent) answer(3_000);
  // Nobody else gets an answer from now on.
  await worker.make("quick.example", other);
  await addBlocks(database, [other]);
  await worker.waitForSent("quick.example");
});

test("an owner takes some of the places only", async ({ databaseUrl, database }) => {
  const [vault, other] = [vaultNumber(5), vaultNumber(6)];
  await addBlocks(database, [vault, other]);
  const worker = await startWorker(databaseUrl, { all: 4, quick: 4, slow: 1, asked: 1 }, 2);
  for (const name of ["theirs1", "theirs2", "theirs3"]) await worker.make(`${name}.example`, vault, "0xa");
  await worker.waitForActive(3);
  await waitUntil("two are sent", () => worker.sentTo("theirs").length === 2);
  await worker.make("other.example", other, "0xb");
  await worker.waitForSent("other.example");
  expect(worker.sentTo("theirs").length).toBe(2);
  worker.sentTo("theirs")[0]?.answer();
  await waitUntil("the third is sent", () => worker.sentTo("theirs").length === 3);
});

test("tests take some of the places only, and each is sent", async ({ databaseUrl, database }) => {
  const [vault, other] = [vaultNumber(7), vaultNumber(8)];
  const worker = await startWorker(databaseUrl, { all: 3, quick: 3, slow: 1, asked: 1 });
  for (const name of ["tested1", "tested2", "tested3"]) {
    await worker.ask(await worker.make(`${name}.example`, vault));
  }
  await worker.waitForSent("tested");
  await worker.make("other.example", other);
  await addBlocks(database, [other]);
  await worker.waitForSent("other.example");
  expect(worker.sentTo("tested").length).toBe(1);
  for (const count of [1, 2, 3]) {
    await waitUntil(`${count} tests are sent`, () => worker.sentTo("tested").length === count);
    worker.sentTo("tested")[count - 1]?.answer();
  }
});
