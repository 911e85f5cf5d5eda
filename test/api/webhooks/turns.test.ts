import { pino } from "pino";
import type { Address } from "viem";
import { expect, onTestFinished, vi } from "vitest";
import { ChangeFeed } from "../../../api/changes/change-feed.ts";
import { Database } from "../../../api/database/database.ts";
import { migrate } from "../../../api/database/migrate.ts";
import { databaseUnavailable } from "../../../api/database/problems.ts";
import { SlidingWindow } from "../../../api/limits/sliding-window.ts";
import { createMetrics } from "../../../api/metrics/metrics.ts";
import { parseApiSettings } from "../../../api/settings.ts";
import { Shards } from "../../../api/shards/shards.ts";
import type { Outcome } from "../../../api/webhooks/send-message.ts";
import { WebhookWorker } from "../../../api/webhooks/webhook-worker.ts";
import { askForTest, createWebhook, deleteWebhook, listWebhooks, sendAgain } from "../../../api/webhooks/webhooks.ts";
import { FRESH_FOR_A_DAY } from "../../support/api.ts";
import { waitUntil } from "../../support/setup.ts";
import { test } from "../../support/test.ts";
import { addBlocks, vaultNumber } from "../../support/webhooks.ts";

// Who is served when there are few places. The tests answer the messages, so no clock decides.

/** @param milliseconds - null for no answer */
type Answer = (milliseconds?: number | null) => void;
type Sent = { url: string; answer: Answer };

/** Starts a worker with turns of one message. */
const startWorker = async (
  databaseUrl: string,
  places: { all: number; quick: number; slow: number; asked: number },
  { placesPerOwner = places.all, before = async (_statement: string) => {} } = {},
) => {
  await migrate(databaseUrl);
  const log = pino({ enabled: false });
  const database = new Database(databaseUrl, log);
  /** What happens to statements, by their names. */
  const hooks = { before, isLost: (_statement: string, _vault: unknown) => false };
  const read = database.read.bind(database);
  database.read = async (pool, statement, values) => {
    await hooks.before(statement.name);
    return hooks.isLost(statement.name, values.vault) ? [] : read(pool, statement, values);
  };
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
      const answer: Answer = (milliseconds = 5) => {
        const isDelivered = milliseconds !== null;
        const status = isDelivered ? 200 : null;
        resolve({ isDelivered, status, error: isDelivered ? null : "No answer.", answer: null, milliseconds });
      };
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
    sendAgain: (id: string, messageId: string) => sendAgain(database, id, messageId),
    hooks,
    feed,
    /** Waits until the worker has looked at its tables twice from now on. */
    waitForLooks: async () => {
      let looks = 0;
      const { before } = hooks;
      hooks.before = async (statement) => {
        await before(statement);
        if (statement === "list-asked-webhook-deliveries") looks++;
      };
      // One of them may have begun before.
      await waitUntil("the worker has looked at its tables", () => looks > 2);
      hooks.before = before;
    },
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
  const worker = await startWorker(databaseUrl, { all: 4, quick: 4, slow: 1, asked: 1 }, { placesPerOwner: 2 });
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

test("deliveries that somebody asks for come in the order of the questions, whatever their age", async ({
  databaseUrl,
}) => {
  const worker = await startWorker(databaseUrl, { all: 3, quick: 1, slow: 1, asked: 1 });
  const [older, busy, newer] = [
    await worker.make("older.example", vaultNumber(9)),
    await worker.make("busy.example", vaultNumber(9)),
    await worker.make("newer.example", vaultNumber(9)),
  ];
  const messageId = await worker.ask(older);
  await worker.waitForSent("older.example");
  worker.sent[0]?.answer();
  await worker.ask(busy);
  await worker.waitForSent("busy.example");
  await worker.ask(newer);
  expect(await worker.sendAgain(older, messageId)).toBe("asked");
  await worker.waitForLooks();
  worker.sent[1]?.answer();
  await waitUntil("the next one is sent", () => worker.sent.length === 3);
  expect(worker.sent[2]?.url).toBe("https://newer.example");
});

test("receivers that gave no answer have slow places for minutes, whatever they answer then", async ({
  databaseUrl,
  database,
}) => {
  const [vault, other] = [vaultNumber(10), vaultNumber(11)];
  await addBlocks(database, [vault, vault]);
  const worker = await startWorker(databaseUrl, { all: 4, quick: 4, slow: 2, asked: 1 });
  const names = Array.from({ length: 6 }, (_, index) => `silent${index}.example`);
  for (const name of names) await worker.make(name, vault);
  /** The first attempt at the first message gets no answer, the second one a quick one. The second message has to wait. */
  const countWaiting = async () => {
    for (const name of names) {
      const [first, second] = worker.sentTo(name);
      first?.answer(null);
      second?.answer();
    }
    await database.query("update service.webhook set next_attempt_at = null");
    return names.filter((name) => worker.sentTo(name).length > 2).length;
  };
  await waitUntil("two wait for an answer", async () => (await countWaiting()) > 1);
  for (let round = 0; round < 2; round++) {
    await countWaiting();
    await worker.waitForLooks();
  }
  expect(await countWaiting()).toBe(2);
  await worker.make("quick.example", other);
  await addBlocks(database, [other]);
  await worker.waitForSent("quick.example");
});

test("webhooks without news read the log every ten minutes, not all at once", async ({ databaseUrl }) => {
  const COUNT = 30;
  const SWEEP_MS = 600_000;
  const now = performance.now.bind(performance);
  let passed = 0;
  const clock = vi.spyOn(performance, "now").mockImplementation(() => now() + passed);
  onTestFinished(() => clock.mockRestore());
  const worker = await startWorker(databaseUrl, { all: 4, quick: 4, slow: 1, asked: 1 });
  const read = vi.spyOn(worker.feed, "readAlone");
  const findRead = () => new Set(read.mock.calls.map(([, { filters }]) => filters.vault)).size;
  for (let index = 0; index < COUNT; index++) await worker.make("swept.example", vaultNumber(100 + index));
  await waitUntil("all have read", () => findRead() === COUNT);
  await worker.waitForLooks();
  const letPass = async (milliseconds: number) => {
    read.mockClear();
    const { before } = worker.hooks;
    // The lease has just been extended: no other process takes it.
    const hasPassed = new Promise<void>((resolve) => {
      worker.hooks.before = async (statement) => {
        if (statement !== "list-active-webhooks") return;
        worker.hooks.before = before;
        passed += milliseconds;
        resolve();
      };
    });
    await hasPassed;
    await worker.waitForLooks();
  };
  await letPass(SWEEP_MS / 2);
  await waitUntil("some have read", findRead);
  expect(findRead()).toBeLessThan(COUNT);
  await letPass(SWEEP_MS);
  await waitUntil("all have read again", () => findRead() === COUNT);
});

test("a network that can be answered for again lets those read that lacked it, and no others", async ({
  databaseUrl,
  database,
}) => {
  // None is swept in the next minutes.
  const random = vi.spyOn(Math, "random").mockReturnValue(0.5);
  onTestFinished(() => random.mockRestore());
  const [vault, other] = [vaultNumber(12), vaultNumber(13)];
  const worker = await startWorker(databaseUrl, { all: 4, quick: 4, slow: 1, asked: 1 });
  const read = vi.spyOn(worker.feed, "readAlone");
  const countReads = (vault: Address) => read.mock.calls.filter(([, { filters }]) => filters.vault === vault).length;
  await worker.make("lacking.example", vault);
  await worker.make("other.example", other);
  await waitUntil("both have read", () => countReads(vault) > 0 && countReads(other) > 0);
  await worker.waitForLooks();

  worker.hooks.isLost = (statement, by) => statement.includes(" changes by ") && by === vault;
  const before = countReads(vault);
  await addBlocks(database, [vault]);
  await waitUntil("it lacks the network", () => countReads(vault) > before);
  worker.hooks.isLost = (statement) => statement.includes(" changes by ");
  for (let tick = 0; tick < 2; tick++) await worker.feed.waitForTick();
  const readBefore = countReads(other);
  worker.hooks.isLost = () => false;
  await worker.waitForSent("lacking.example");
  await worker.waitForLooks();
  expect(countReads(other)).toBe(readBefore);
});

test("secrets that were replaced a day ago are deleted within seconds, also if a look at the tables has failed", async ({
  databaseUrl,
  database,
}) => {
  let failures = 0;
  let isFailing = true;
  const before = async (statement: string) => {
    if (statement !== "forget-webhook-secrets" || !isFailing) return;
    failures++;
    throw databaseUnavailable();
  };
  const worker = await startWorker(databaseUrl, { all: 1, quick: 1, slow: 1, asked: 1 }, { before });
  const id = await worker.make("rotated.example", vaultNumber(14));
  await database.query(
    "update service.webhook set previous_secret = 'old', previous_secret_until = now() where id = $1",
    [id],
  );
  await waitUntil("it has failed", () => failures);
  isFailing = false;
  await waitUntil("the secret is gone", async () => {
    const { rows } = await database.query("select previous_secret from service.webhook where id = $1", [id]);
    return rows[0].previous_secret === null;
  });
});
