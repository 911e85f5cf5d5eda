import { expect } from "vitest";
import { FRESH_FOR_A_DAY, startTestApi } from "../../support/api.ts";
import { waitUntil } from "../../support/setup.ts";
import { createDatabaseRelay } from "../../support/tcp-relay.ts";
import { test as base } from "../../support/test.ts";
import {
  addBlocks,
  createWebhook,
  readWebhook,
  removeBlocks,
  runWebhooks,
  startReceiver,
  vaultNumber,
  verify,
  WEBHOOKS_ON,
} from "../../support/webhooks.ts";

const test = base.extend("env", WEBHOOKS_ON);

type Receiver = Awaited<ReturnType<typeof startReceiver>>;

const waitForMessages = (receiver: Receiver, count: number, seconds = 20) =>
  waitUntil(
    `${count} messages have come`,
    () => receiver.received.length,
    seconds,
    (length) => length >= count,
  );

const blocksOf = ({ received }: Receiver) =>
  received.map(({ message }) => (message.type === "delegation.changed" ? message.data.blockNumber : message.type));

const idsOf = ({ received }: Receiver) => received.map(({ headers }) => headers["webhook-id"]);

test("each change is one message, in order, signed as Standard Webhooks says", async ({
  api: _,
  databaseUrl,
  database,
}) => {
  const receiver = await startReceiver();
  const [vault, other] = [vaultNumber(1), vaultNumber(2)];
  const { secret, id } = await createWebhook(databaseUrl, receiver.url, "--finality", "latest", "--vault", vault);
  const blocks = await addBlocks(database, [vault, other, vault, vault]);
  await waitForMessages(receiver, 3);
  expect(blocksOf(receiver)).toEqual([blocks[0], blocks[2], blocks[3]]);
  expect(new Set(idsOf(receiver)).size).toBe(3);
  for (const received of receiver.received) {
    const { type, timestamp, data } = verify(secret, received) as { type: string; timestamp: string; data: object };
    expect(type).toBe("delegation.changed");
    expect(data).toMatchObject({ kind: "made", chainId: 1, vault, final: false });
    expect(Date.parse(timestamp) / 1000).toBe((data as { blockTimestamp: number }).blockTimestamp);
    expect(received.headers).toMatchObject({ "content-type": "application/json" });
  }
  await waitUntil(
    "all are listed as delivered",
    async () => (await runWebhooks(databaseUrl, "deliveries", id)).stdout.match(/delivered, 204/g)?.length,
    20,
    (length) => length === 3,
  );
});

test("changes of before the webhook are not sent, unless it starts at the beginning of the log", async ({
  api: _,
  databaseUrl,
  database,
}) => {
  const [vault] = [vaultNumber(3)];
  await addBlocks(database, [vault]);
  await database.query("select pg_sleep(2)");
  const [fromNow, whole] = [await startReceiver(), await startReceiver()];
  const filters = ["--finality", "latest", "--vault", vault];
  await createWebhook(databaseUrl, fromNow.url, ...filters);
  await createWebhook(databaseUrl, whole.url, ...filters, "--cursor", "start");
  const [block] = await addBlocks(database, [vault]);
  await waitForMessages(whole, 2);
  await waitForMessages(fromNow, 1);
  expect(blocksOf(fromNow)).toEqual([block]);
});

test("a message that fails is sent again with the same id and body, with growing pauses, before the next one", async ({
  api: _,
  databaseUrl,
  database,
}) => {
  let status = 500;
  const receiver = await startReceiver(() => status);
  const vault = vaultNumber(4);
  const { id } = await createWebhook(databaseUrl, receiver.url, "--finality", "latest", "--vault", vault);
  await addBlocks(database, [vault, vault]);
  const pauses: number[] = [];
  for (const hours of [0, 1, 5, 40]) {
    const before = receiver.received.length;
    await database.query(
      `update service.webhook set next_attempt_at = null,
         failing_since = case when failing_since is not null then now() - make_interval(hours => $2) end where id = $1`,
      [id, hours],
    );
    await waitForMessages(receiver, before + 1);
    const { rows } = await waitUntil(
      "its pause is stored",
      () =>
        database.query(
          `select extract(epoch from next_attempt_at - sent_at)::float8 as pause from service.webhook
           join service.webhook_delivery delivery on webhook_id = webhook.id
           where webhook.id = $1 and attempts = $2 and next_attempt_at is not null`,
          [id, before + 1],
        ),
      10,
      ({ rows }) => rows.length === 1,
    );
    pauses.push(Math.round(rows[0].pause / 60));
  }
  expect(pauses, "in minutes").toEqual([0, 60, 300, 360]);
  expect(new Set(idsOf(receiver)).size).toBe(1);
  expect(new Set(receiver.received.map(({ body }) => body)).size).toBe(1);

  status = 200;
  await database.query("update service.webhook set next_attempt_at = null where id = $1", [id]);
  await waitForMessages(receiver, 6);
  expect(new Set(idsOf(receiver)).size).toBe(2);
  await waitUntil("it is not failing any more", async () => (await readWebhook(database, id)).failing_since === null);
});

test("after three days it is paused with the reason, and goes on where it stopped when it is resumed", async ({
  api: _,
  databaseUrl,
  database,
}) => {
  let status = 503;
  const receiver = await startReceiver(() => status);
  const vault = vaultNumber(5);
  const { id } = await createWebhook(databaseUrl, receiver.url, "--finality", "latest", "--vault", vault);
  const [first, second] = await addBlocks(database, [vault, vault]);
  await waitUntil("it fails", async () => (await readWebhook(database, id)).failing_since !== null);
  await database.query(
    "update service.webhook set failing_since = now() - interval '71 hours 59 minutes', next_attempt_at = null where id = $1",
    [id],
  );
  // The last attempt is at the end of the third day, not six hours later.
  const last = await waitUntil(
    "the last attempt is planned",
    () => readWebhook(database, id),
    20,
    ({ next_attempt_at, failing_since }) =>
      next_attempt_at !== null && next_attempt_at - failing_since === 3 * 86_400_000,
  );
  expect(last.paused_at).toBeNull();
  await database.query(
    "update service.webhook set failing_since = now() - interval '3 days', next_attempt_at = null where id = $1",
    [id],
  );
  const paused = await waitUntil(
    "it is paused",
    () => readWebhook(database, id),
    20,
    (row) => row.paused_at !== null,
  );
  expect(paused.paused_reason).toBe(
    "No message was delivered for three days. The last attempt: Answered 503, not 2xx.",
  );
  expect((await runWebhooks(databaseUrl, "list")).stdout).toContain(paused.paused_reason);

  const before = receiver.received.length;
  status = 200;
  await runWebhooks(databaseUrl, "resume", id);
  await waitForMessages(receiver, before + 2);
  expect(blocksOf(receiver).slice(before)).toEqual([first, second]);
});

test("410 pauses it at once", async ({ api: _, databaseUrl, database }) => {
  const receiver = await startReceiver(() => 410);
  const vault = vaultNumber(6);
  const { id } = await createWebhook(databaseUrl, receiver.url, "--finality", "latest", "--vault", vault);
  await addBlocks(database, [vault]);
  const paused = await waitUntil(
    "it is paused",
    () => readWebhook(database, id),
    20,
    (row) => row.paused_at !== null,
  );
  expect(paused.paused_reason).toBe("The receiver answered 410 Gone.");
});

test("a silent receiver delays no other", async ({ api: _, databaseUrl, database }) => {
  let answer = (_: number) => {};
  const silent = await startReceiver(
    () =>
      new Promise((resolve) => {
        answer = resolve;
      }),
  );
  const quick = await startReceiver();
  const vault = vaultNumber(7);
  for (const { url } of [silent, silent, silent, quick]) {
    await createWebhook(databaseUrl, url, "--finality", "latest", "--vault", vault);
  }
  const blocks = await addBlocks(database, Array(20).fill(vault));
  await waitForMessages(quick, 20, 9);
  expect(blocksOf(quick)).toEqual(blocks);
  answer(200);
});

test("an undone change is undone at the receiver too, even if its own delivery got no answer", async ({
  api: _,
  databaseUrl,
  database,
}) => {
  let status = 200;
  const receiver = await startReceiver(() => status);
  const vault = vaultNumber(8);
  const { id } = await createWebhook(
    databaseUrl,
    receiver.url,
    "--finality",
    "latest",
    "--vault",
    vault,
    "--chain",
    "1",
  );
  const [kept = 0] = await addBlocks(database, [vault]);
  await waitForMessages(receiver, 1);
  status = 500;
  const [lost = 0] = await addBlocks(database, [vault]);
  await waitForMessages(receiver, 2);
  await removeBlocks(database, kept);
  const [replaced = 0] = await addBlocks(database, [vault]);
  expect(replaced).toBe(lost);
  status = 200;
  await database.query("update service.webhook set next_attempt_at = null where id = $1", [id]);
  await waitForMessages(receiver, 6);
  // The one that failed may have arrived: it is sent to the end, then undone with all that is not final.
  expect(blocksOf(receiver)).toEqual([kept, lost, lost, "delegation.undone", kept, replaced]);
  expect(new Set(idsOf(receiver)).size, "each one a message of its own, except the retry").toBe(5);
});

test("two processes: one sends, the other takes over at once when it stops, and within seconds when it dies", async ({
  api,
  databaseUrl,
  database,
}) => {
  const env = { ...FRESH_FOR_A_DAY, ...WEBHOOKS_ON };
  const receiver = await startReceiver();
  const vault = vaultNumber(9);
  const { id } = await createWebhook(databaseUrl, receiver.url, "--finality", "latest", "--vault", vault);
  const relay = await createDatabaseRelay(databaseUrl);
  await relay.open();
  const readWorker = async () => (await database.query("select id from service.webhook_worker")).rows[0]?.id;
  const first = await waitUntil("there is a worker", readWorker);
  const second = await startTestApi({ databaseUrl: relay.url, env });
  await addBlocks(database, [vault]);
  await waitForMessages(receiver, 1);
  expect(await readWorker()).toBe(first);

  await api.stop();
  await waitUntil("the other one is the worker", async () => ![undefined, first].includes(await readWorker()), 5);
  await addBlocks(database, [vault]);
  await waitForMessages(receiver, 2);

  // Cut off from the database, it is as good as dead.
  const third = await startTestApi({ databaseUrl, env });
  relay.close();
  const blocks = await addBlocks(database, [vault, vault]);
  await waitForMessages(receiver, 4, 15);
  expect(blocksOf(receiver).slice(-2)).toEqual(blocks);
  expect(new Set(idsOf(receiver)).size).toBe(4);
  expect(second.port).not.toBe(third.port);
  await waitUntil("all is settled", async () => {
    const { rows } = await database.query(
      "select from service.webhook_delivery where webhook_id = $1 and delivered_at is null",
      [id],
    );
    return rows.length === 0;
  });
});
