import type { BlockList } from "node:net";
import { z } from "@hono/zod-openapi";
import type { ApiApp, ApiContext, ApiMiddleware } from "../context.ts";
import { createJsonReader } from "../contract/read-json.ts";
import type { Database } from "../database/database.ts";
import { isOwnerBlocked } from "../keys/blocked-owners.ts";
import { Problem } from "../problem.ts";
import { respond, respondJson } from "../respond.ts";
import type { Shards } from "../shards/shards.ts";
import { createOwnersReader } from "../webhooks/read-new-webhook.ts";
import {
  askForTest,
  createWebhook,
  type DeliveryInfo,
  deleteWebhook,
  findWebhook,
  listDeliveries,
  listWebhooks,
  pauseWebhook,
  resumeWebhook,
  rotateSecret,
  sendAgain,
  type WebhookInfo,
} from "../webhooks/webhooks.ts";
import { accountBlocked } from "./account.ts";

// The webhooks of the signed-in wallet.

export type OwnersWebhooks = { shards: Shards; allowedNetworks: BlockList | null };

const WEBHOOKS_PER_WALLET = 5;

/** Parameters of GET /changes, as in a query, and the URL. */
const NewWebhook = z.record(
  z.string(),
  z.union([z.string(), z.array(z.string())], { error: "must be a text, or a list of texts" }),
  { error: "must be an object" },
);

const readJson = createJsonReader(8_192);

type Page = { database: Database; webhooks: OwnersWebhooks; requireOwner: (c: ApiContext) => Promise<string> };

type Middleware = { admitRequest: ApiMiddleware; allowOwnPages: (...methods: string[]) => ApiMiddleware };

const PATH = "/developers/api/webhooks";

export const addWebhookRoutes = (app: ApiApp, page: Page, { admitRequest, allowOwnPages }: Middleware): void => {
  app.all(PATH, allowOwnPages("GET", "POST"), admitRequest);
  app.all(`${PATH}/:id`, allowOwnPages("DELETE"), admitRequest);
  app.all(`${PATH}/:id/deliveries`, allowOwnPages("GET"), admitRequest);
  app.all(`${PATH}/:id/deliveries/:message`, allowOwnPages("POST"), admitRequest);
  for (const action of ["pause", "resume", "rotate", "test"]) {
    app.all(`${PATH}/:id/${action}`, allowOwnPages("POST"), admitRequest);
  }
  addListRoutes(app, page);
  addActionRoutes(app, page);
};

const addListRoutes = (app: ApiApp, { database, webhooks, requireOwner }: Page): void => {
  const readNew = createOwnersReader(webhooks.shards, webhooks.allowedNetworks);
  app.get(PATH, async (c) => {
    const owner = await requireOwner(c);
    const owned = await listWebhooks(database, owner);
    const isBlocked = await isOwnerBlocked(database, owner);
    return respondJson(c, { isBlocked, webhooksPerWallet: WEBHOOKS_PER_WALLET, webhooks: owned.map(webhookJson) });
  });

  app.post(PATH, async (c) => {
    const owner = await requireOwner(c);
    const fields = await readJson(c, NewWebhook);
    const asked = readNew((name) => [fields[name] ?? []].flat());
    const created = await createWebhook(database, { ...asked, owner }, WEBHOOKS_PER_WALLET);
    if (created === "blocked") throw accountBlocked("webhooks");
    if (created === "too many") {
      const detail = `A wallet may have ${WEBHOOKS_PER_WALLET} webhooks here. Delete one to make another.`;
      throw new Problem("too-many-webhooks", detail);
    }
    if (created === "full") {
      const detail = "This service has as many webhooks as it accepts. Ask its operator, or poll GET /changes.";
      throw new Problem("too-many-webhooks", detail);
    }
    const webhook = await findWebhook(database, created.id, owner);
    return respondJson(c, { secret: created.secret, ...(webhook && webhookJson(webhook)) }, {}, 201);
  });
};

const addActionRoutes = (app: ApiApp, { database, requireOwner }: Page): void => {
  /** The same response for webhooks of others: nobody learns which exist. */
  const requireWebhook = async (c: ApiContext) => {
    const owner = await requireOwner(c);
    const webhook = await findWebhook(database, c.req.param("id") ?? "", owner);
    if (!webhook) throw new Problem("not-found", "This wallet has no webhook with this id.");
    return { id: webhook.id, owner };
  };

  app.delete(`${PATH}/:id`, async (c) => {
    const { id, owner } = await requireWebhook(c);
    await deleteWebhook(database, id, owner);
    return respond(c, 204, null);
  });

  app.post(`${PATH}/:id/pause`, async (c) => {
    const { id, owner } = await requireWebhook(c);
    await pauseWebhook(database, id, owner);
    return respond(c, 204, null);
  });

  app.post(`${PATH}/:id/resume`, async (c) => {
    const { id, owner } = await requireWebhook(c);
    await resumeWebhook(database, id, owner);
    return respond(c, 204, null);
  });

  app.post(`${PATH}/:id/rotate`, async (c) => {
    const { id, owner } = await requireWebhook(c);
    return respondJson(c, { secret: await rotateSecret(database, id, owner) });
  });

  app.post(`${PATH}/:id/test`, async (c) => {
    const { id } = await requireWebhook(c);
    return respondJson(c, { messageId: await askForTest(database, id) }, {}, 202);
  });

  app.get(`${PATH}/:id/deliveries`, async (c) => {
    const { id } = await requireWebhook(c);
    return respondJson(c, { deliveries: (await listDeliveries(database, id)).map(deliveryJson) });
  });

  app.post(`${PATH}/:id/deliveries/:message`, async (c) => {
    const { id } = await requireWebhook(c);
    const asked = await sendAgain(database, id, c.req.param("message"));
    if (asked === "not kept") throw new Problem("not-found", "This webhook keeps no message with this id.");
    if (asked === "paused") {
      throw new Problem("webhook-paused", "This message comes next when you resume the webhook: it was not delivered.");
    }
    return respond(c, 204, null);
  });
};

const webhookJson = ({ owner: _, chainIds, filters, isBlocked: __, ...webhook }: WebhookInfo) => ({
  ...webhook,
  chainId: chainIds,
  ...filters,
});

const deliveryJson = ({ id: _, ...delivery }: DeliveryInfo) => delivery;
