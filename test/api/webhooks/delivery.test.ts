import { readFileSync } from "node:fs";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { createSampleDatabase, FRESH_FOR_A_DAY, launchApiProcess, startTestApi } from "../../support/api.ts";
import { ROOT } from "../../support/run.ts";
import { connectClient, waitUntil } from "../../support/setup.ts";
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

test("a cursor keeps the place of a network that only another version of the service knows", async ({
  api: _,
  databaseUrl,
  database,
}) => {
  const receiver = await startReceiver();
  const vault = vaultNumber(11);
  const { id } = await createWebhook(databaseUrl, receiver.url, "--finality", "latest", "--vault", vault);
  const place = `~2.5-3.${"x".repeat(22)}`;
  await database.query("update service.webhook set cursor = cursor || $2 where id = $1", [id, place]);
  const [block = 0] = await addBlocks(database, [vault]);
  await waitForMessages(receiver, 1);
  const position = `~1.${block.toString(36)}`;
  const isSaved = async () => (await readWebhook(database, id)).cursor.includes(position);
  await waitUntil("its cursor has moved", isSaved);
  expect((await readWebhook(database, id)).cursor).toContain(place);
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

test("a message that the receiver took before its process was killed comes again with its id, and the next one after it", async () => {
  const databaseUrl = await createSampleDatabase();
  const [database, locker] = [await connectClient(databaseUrl), await connectClient(databaseUrl)];
  const env = { ...FRESH_FOR_A_DAY, ...WEBHOOKS_ON };
  const killed = await launchApiProcess({ databaseUrl, env });
  onTestFinished(() => killed.stop());
  const receiver = await startReceiver(async () => {
    // The record of the delivery has to wait.
    if (receiver.received.length === 1) {
      await locker.query("begin");
      await locker.query("select from service.webhook_delivery for update");
    }
    return 204;
  });
  const vault = vaultNumber(10);
  await createWebhook(databaseUrl, receiver.url, "--finality", "latest", "--vault", vault);
  const [first, second] = await addBlocks(database, [vault, vault]);
  const waiting = "from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
  const countWaiting = async () => (await database.query(`select ${waiting}`)).rows.length;
  await waitUntil("the record waits", async () => (await countWaiting()) > 0);
  const before = receiver.received.length;
  process.kill(killed.pid, "SIGKILL");
  await killed.exited;
  // Postgres would end the statement of a client that is no more.
  await database.query(`select pg_terminate_backend(pid) ${waiting}`);
  await waitUntil("the record is lost", async () => (await countWaiting()) === 0);
  await locker.query("rollback");

  await startTestApi({ databaseUrl, env });
  await waitForMessages(receiver, before + 2);
  const [id] = idsOf(receiver);
  expect(idsOf(receiver).slice(0, -1)).toEqual(Array(before + 1).fill(id));
  expect(blocksOf(receiver)).toEqual([...Array(before + 1).fill(first), second]);
});

test("proxies that the environment names see nothing", async () => {
  const databaseUrl = await createSampleDatabase();
  let connections = 0;
  const proxy = createServer((socket) => {
    connections++;
    socket.destroy();
  });
  const pem = readFileSync(join(ROOT, "test/support/receiver.pem"), "utf8");
  const secure = createTlsServer({ key: pem, cert: pem });
  for (const server of [proxy, secure]) {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
  }
  const portOf = (server: typeof proxy) => (server.address() as AddressInfo).port;
  const names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"].flatMap((name) => [name, name.toLowerCase()]);
  const proxies = Object.fromEntries(names.map((name) => [name, `http://127.0.0.1:${portOf(proxy)}`]));
  const env = { ...FRESH_FOR_A_DAY, ...WEBHOOKS_ON, ...proxies, NODE_USE_ENV_PROXY: "1" };
  const api = await launchApiProcess({ databaseUrl, env });
  onTestFinished(() => api.stop());
  const receiver = await startReceiver();
  const tested = await Promise.all(
    [receiver.url, `https://127.0.0.1:${portOf(secure)}/`].map(async (url) => {
      const { id } = await createWebhook(databaseUrl, url);
      return (await runWebhooks(databaseUrl, "test", id)).stdout;
    }),
  );
  // Only who speaks to the receiver itself sees its certificate.
  expect(tested).toEqual(["delivered, 204", "The connection failed: DEPTH_ZERO_SELF_SIGNED_CERT."]);
  expect(connections).toBe(0);
});

test("owners' webhooks that have been paused for 90 days are deleted, and secrets that were replaced a day ago", async () => {
  const databaseUrl = await createSampleDatabase();
  const database = await connectClient(databaseUrl);
  const make = async () => (await createWebhook(databaseUrl, "http://127.0.0.1:9/")).id;
  const [long, short, operators, rotated] = [await make(), await make(), await make(), await make()];
  const set = (id: string, fields: string) =>
    database.query(`update service.webhook set ${fields} where id = $1`, [id]);
  await set(long, "owner = '0xa', slot = 1, paused_at = now() - interval '91 days'");
  await set(short, "owner = '0xa', slot = 2, paused_at = now() - interval '89 days'");
  await set(
    operators,
    "paused_at = now() - interval '91 days', previous_secret = 'kept', previous_secret_until = now() + interval '1 hour'",
  );
  await set(rotated, "previous_secret = 'old', previous_secret_until = now() - interval '1 minute'");
  await startTestApi({ databaseUrl, env: { ...FRESH_FOR_A_DAY, ...WEBHOOKS_ON } });
  const readSecrets = async () => {
    const { rows } = await database.query("select id, previous_secret from service.webhook");
    return Object.fromEntries(rows.map(({ id, previous_secret }) => [id, previous_secret]));
  };
  const left = await waitUntil("an old secret is gone", readSecrets, 20, (secrets) => secrets[rotated] === null);
  expect(left).toEqual({ [short]: null, [operators]: "kept", [rotated]: null });
});
