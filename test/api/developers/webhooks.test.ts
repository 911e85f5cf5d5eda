import { expect } from "vitest";
import { startTestApi, VAULT } from "../../support/api.ts";
import { runKeys } from "../../support/commands.ts";
import { createWallet, signInVisitor, Visitor } from "../../support/developers.ts";
import { waitUntil } from "../../support/setup.ts";
import { test as base } from "../../support/test.ts";
import { addBlocks, runWebhooks, startReceiver, vaultNumber, verify, WEBHOOKS_ON } from "../../support/webhooks.ts";

const test = base.extend("env", WEBHOOKS_ON);

type WebhookJson = { id: string; url: string; secret: string; vault?: string } & Record<
  "pausedAt" | "failingSince" | "nextAttemptAt",
  string | null
>;
type DeliveryJson = { messageId: string; status: number | null; body: string } & Record<
  "createdAt" | "askedAt" | "sentAt",
  string | null
>;

const make = (visitor: Visitor, body: object) =>
  visitor.send<WebhookJson & { detail: string; type: string; errors: { parameter: string }[] }>("webhooks", {
    method: "POST",
    body,
  });

const list = async (visitor: Visitor) => (await visitor.send<{ webhooks: WebhookJson[] }>("webhooks")).json.webhooks;

const waitForDelivery = (visitor: Visitor, id: string, isWanted: (delivery: DeliveryJson) => boolean) =>
  waitUntil(
    "it is delivered",
    async () => (await visitor.send<{ deliveries: DeliveryJson[] }>(`webhooks/${id}/deliveries`)).json.deliveries[0],
    20,
    (delivery) => delivery !== undefined && delivery.sentAt !== null && delivery.askedAt === null && isWanted(delivery),
  );

test("201, 200, 202, 204: made, listed without its secret, tested, sent again, paused, resumed, rotated, deleted", async ({
  owner,
  database,
}) => {
  const receiver = await startReceiver();
  const { status, json } = await make(owner, { url: receiver.url, vault: VAULT, chainId: ["1"], finality: "latest" });
  expect(status).toBe(201);
  const { secret, ...made } = json;
  expect(made).toMatchObject({ url: receiver.url, vault: VAULT.toLowerCase(), chainId: [1], pausedAt: null });
  expect(await list(owner)).toEqual([made]);

  const path = `webhooks/${made.id}`;
  const tested = await owner.send<{ messageId: string }>(`${path}/test`, { method: "POST" });
  expect(tested.status).toBe(202);
  const { messageId } = tested.json;
  expect(await waitForDelivery(owner, made.id, ({ status }) => status === 204)).toMatchObject({ messageId });
  expect((await owner.send(`${path}/deliveries/${messageId}`, { method: "POST" })).status).toBe(204);
  await waitUntil("it is sent again", () => receiver.received.length === 2);
  expect(receiver.received.map(({ headers }) => headers["webhook-id"])).toEqual([messageId, messageId]);

  expect((await owner.send(`${path}/pause`, { method: "POST" })).status).toBe(204);
  expect(await list(owner)).toMatchObject([{ pausedAt: expect.any(String), pausedReason: null }]);
  expect((await owner.send(`${path}/resume`, { method: "POST" })).status).toBe(204);
  expect(await list(owner)).toMatchObject([{ pausedAt: null }]);

  // Both secrets are valid for a day, then the new one alone.
  const rotated = (await owner.send<{ secret: string }>(`${path}/rotate`, { method: "POST" })).json.secret;
  await owner.send(`${path}/test`, { method: "POST" });
  await waitUntil("a test has come", () => receiver.received.length === 3);
  for (const each of [secret, rotated]) verify(each, receiver.received[2] ?? expect.fail());
  await database.query("update service.webhook set previous_secret_until = now() where id = $1", [made.id]);
  await owner.send(`${path}/test`, { method: "POST" });
  await waitUntil("another one has come", () => receiver.received.length === 4);
  const [last] = receiver.received.slice(3);
  verify(rotated, last ?? expect.fail());
  expect(() => verify(secret, last ?? expect.fail())).toThrow("No matching signature");

  expect((await owner.send("webhooks")).body).not.toContain("whsec_");
  expect((await owner.send(path, { method: "DELETE" })).status).toBe(204);
  expect(await list(owner)).toEqual([]);
  const { rows } = await database.query("select from service.webhook_delivery where webhook_id = $1", [made.id]);
  expect(rows).toEqual([]);
});

test("400: every bad field at once, and no way to the whole log", async ({ owner, database, databaseUrl, api }) => {
  const bad = { url: "ftp://x", chainId: ["5"], vault: "0x1", finality: "soon", type: "NONE", registry: "v3" };
  const { status, json } = await make(owner, bad);
  expect(status).toBe(400);
  expect(json.errors.map(({ parameter }) => parameter).sort()).toEqual([
    "finality",
    "registry",
    "type",
    "url",
    "vault",
  ]);
  expect((await make(owner, { url: "http://127.0.0.1/", chainId: ["5"] })).json.errors).toMatchObject([
    { parameter: "chainId" },
  ]);
  expect((await make(owner, { url: 5 })).status).toBe(400);
  // Without allowed networks only what is public.
  const strict = await startTestApi({ databaseUrl, env: { WEBHOOKS: "on", PUBLIC_URL: api.url } });
  const there = owner.at(strict);
  for (const url of [
    "http://receiver.example/",
    "https://receiver.example:8443/",
    "https://user:secret@receiver.example/",
    "https://127.0.0.1/",
    "https://2130706433/",
    "https://[::1]/",
    "https://169.254.169.254/latest/meta-data",
    `https://receiver.example/${"x".repeat(2_000)}`,
  ]) {
    const answer = await there.send("webhooks", { method: "POST", body: { url }, headers: { Origin: api.url } });
    expect(answer, url).toMatchObject({
      status: 400,
      json: { detail: expect.stringMatching(/^url must be an https/) },
    });
  }
  const { id } = (await make(owner, { url: "http://127.0.0.1/", cursor: "start" })).json;
  const { rows } = await database.query("select cursor from service.webhook where id = $1", [id]);
  expect(Number.parseInt(rows[0].cursor.split("~")[1], 36)).toBeGreaterThan(Date.now() / 1000 - 60);
});

test("409: a wallet may have five, also with concurrent requests", async ({ owner }) => {
  const answers = await Promise.all(Array.from({ length: 12 }, () => make(owner, { url: "http://127.0.0.1:9/" })));
  expect(answers.map(({ status }) => status).sort()).toEqual([...Array(5).fill(201), ...Array(7).fill(409)]);
  expect(answers.find(({ status }) => status === 409)?.json).toMatchObject({ type: "/docs#problem-too-many-webhooks" });
  await owner.send(`webhooks/${(await list(owner))[0]?.id}`, { method: "DELETE" });
  expect((await make(owner, { url: "http://127.0.0.1:9/" })).status).toBe(201);
});

test("409: all wallets together may have ten thousand; the operator's do not count", async ({
  owner,
  database,
  databaseUrl,
}) => {
  const fill = (count: number, owner: string | null) =>
    database.query(
      `insert into service.webhook (id, owner, slot, url, filters, chain_ids, finality, cursor, secret, paused_at)
       select concat('wh_', $2::text, n), $2 || n, length($2), '', '{}', '{}', 'final', '', '', now()
       from generate_series(1, $1) n`,
      [count, owner],
    );
  const { rows } = await database.query("select count(owner)::int as made from service.webhook");
  await fill(9_999 - rows[0].made, "x");
  await fill(5, null);
  expect((await make(owner, { url: "http://127.0.0.1:9/" })).status).toBe(201);
  const { status, json } = await make(owner, { url: "http://127.0.0.1:9/" });
  expect([status, json.type]).toEqual([409, "/docs#problem-too-many-webhooks"]);
  expect(json.detail).toMatch(/^This service has as many webhooks as it accepts/);
  expect((await runWebhooks(databaseUrl, "create", "--url", "http://127.0.0.1:9/")).code).toBe(0);
  await database.query("delete from service.webhook");
});

test("409: a message of a paused webhook comes when it is resumed, in order", async ({
  owner,
  database,
  databaseUrl,
}) => {
  const vault = vaultNumber(1);
  const receiver = await startReceiver(() => 410);
  const { id } = (await make(owner, { url: receiver.url, vault, finality: "latest" })).json;
  await addBlocks(database, [vault]);
  await waitUntil("it is paused", async () => (await list(owner)).find((each) => each.id === id)?.pausedAt);
  const { messageId } = (await waitForDelivery(owner, id, ({ status }) => status === 410)) ?? expect.fail();
  const again = await owner.send<{ type: string }>(`webhooks/${id}/deliveries/${messageId}`, { method: "POST" });
  expect([again.status, again.json.type]).toEqual([409, "/docs#problem-webhook-paused"]);
  expect(await runWebhooks(databaseUrl, "again", id, messageId)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`resume ${id}`),
  });
});

test("times are whole seconds: how long an attempt without an answer took would tell which names there are", async ({
  owner,
  database,
}) => {
  const vault = vaultNumber(2);
  const { id } = (await make(owner, { url: "http://127.0.0.1:9/", vault, finality: "latest" })).json;
  await addBlocks(database, [vault]);
  const { createdAt, sentAt } = (await waitForDelivery(owner, id, () => true)) ?? expect.fail();
  const { failingSince, nextAttemptAt } = (await list(owner)).find((each) => each.id === id) ?? expect.fail();
  for (const time of [createdAt, sentAt, failingSince, nextAttemptAt]) expect(time).toMatch(/:\d\d\.000Z$/);
});

test("the newest fifty deliveries are kept", async ({ owner, database }) => {
  const { id } = (await make(owner, { url: "http://127.0.0.1:9/" })).json;
  for (let count = 0; count < 52; count++) await owner.send(`webhooks/${id}/test`, { method: "POST" });
  const { json } = await owner.send<{ deliveries: DeliveryJson[] }>(`webhooks/${id}/deliveries`);
  expect(json.deliveries.length).toBe(50);
  const { rows } = await database.query("select from service.webhook_delivery where webhook_id = $1", [id]);
  expect(rows.length).toBe(50);
});

test("404: webhooks of others, as those that do not exist; 401 without a session", async ({ api, owner }) => {
  const { id } = (await make(owner, { url: "http://127.0.0.1:9/" })).json;
  const stranger = await signInVisitor(api);
  expect(await list(stranger)).toEqual([]);
  const requests = ["", "/pause", "/resume", "/rotate", "/test", "/deliveries", "/deliveries/msg_1"];
  for (const request of requests) {
    const method = request === "" ? "DELETE" : request === "/deliveries" ? "GET" : "POST";
    const [theirs, none] = await Promise.all([
      stranger.send(`webhooks/${id}${request}`, { method }),
      stranger.send(`webhooks/wh_none${request}`, { method }),
    ]);
    expect([theirs.status, theirs.body], request).toEqual([404, none.body]);
    expect((await new Visitor(api).send(`webhooks/${id}${request}`, { method })).status).toBe(401);
  }
  expect((await list(owner))[0]?.id).toBe(id);
});

test("403: a blocked account makes no webhooks, and its webhooks get nothing", async ({ api, databaseUrl }) => {
  const wallet = createWallet();
  const visitor = await signInVisitor(api, wallet);
  const [theirs, others] = [await startReceiver(), await startReceiver()];
  const { id } = (await make(visitor, { url: theirs.url })).json;
  await runKeys(["block", wallet.address], databaseUrl);
  expect((await make(visitor, { url: theirs.url })).status).toBe(403);
  expect((await visitor.send(`webhooks/${id}/test`, { method: "POST" })).status).toBe(202);
  const bystander = await signInVisitor(api);
  const other = (await make(bystander, { url: others.url })).json;
  await bystander.send(`webhooks/${other.id}/test`, { method: "POST" });
  await waitForDelivery(bystander, other.id, ({ status }) => status === 204);
  expect(theirs.received).toEqual([]);
  await runKeys(["unblock", wallet.address], databaseUrl);
  await waitForDelivery(visitor, id, ({ status }) => status === 204);
});

test("without WEBHOOKS=on neither the page nor its routes say anything of webhooks", async ({
  api,
  owner,
  databaseUrl,
}) => {
  const without = await startTestApi({ databaseUrl, env: { PUBLIC_URL: api.url } });
  expect((await owner.at(without).send("webhooks")).status).toBe(404);
  expect((await owner.at(without).send("session")).body).not.toContain("ebhook");
  expect((await owner.send("session")).json).toMatchObject({ hasWebhooks: true });
});
