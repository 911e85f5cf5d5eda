import { randomBytes } from "node:crypto";
import { and, desc, eq, getTableColumns, isNotNull, isNull, lt, or, sql } from "drizzle-orm";
import { encodeChangeCursor } from "../changes/change-cursor.ts";
import type { Filters, Finality } from "../changes/filters.ts";
import { nameChanges } from "../changes/read-changes.ts";
import type { Database } from "../database/database.ts";
import { memoizeByDatabase } from "../database/memoize.ts";
import { requireTables } from "../database/service-tables.ts";
import { compileStatement } from "../database/statement.ts";
import { blockedOwner, webhook, webhookDelivery } from "../database/tables.ts";
import { isOwnerBlocked } from "../keys/blocked-owners.ts";
import { generateSecret } from "./sign-message.ts";

// What owners and operators do with webhooks. An owner has some; null is the operator, who may use all of them.

export type NewWebhook = {
  url: string;
  /** All networks if empty. */
  chainId: readonly number[];
  filters: Filters;
  finality: Finality;
  /** Where to start: `start`, or a cursor of the same question. By default now. */
  cursor?: string | undefined;
};

/** Deliveries of a webhook that are kept. */
const KEPT_DELIVERIES = 50;
/** Webhooks of all owners together: the worker's costs grow with them, and accounts cost nothing. */
const MAX_OF_OWNERS = 10_000;
/** Time for which a secret is used after it has been replaced. */
const ROTATION_HOURS = 24;

const value = sql.placeholder;
const OF_OWNERS = sql`(select count(owner)::int from ${webhook})`;

/** What everyone who may see a webhook may see of it: never its secrets. */
const { id, owner, url, filters, chainIds, finality, createdAt, failingSince, nextAttemptAt, pausedAt, pausedReason } =
  getTableColumns(webhook);
// drizzle would leave out the table of a column in a subquery.
const COLUMNS = {
  ...{ id, owner, url, filters, chainIds, finality, createdAt, failingSince, nextAttemptAt, pausedAt, pausedReason },
  isBlocked: sql<boolean>`exists (select from ${blockedOwner} as blocked where blocked.owner = webhook.owner)`,
  lastDeliveredAt: sql<Date | null>`(
    select max(delivered_at) from ${webhookDelivery} as delivery where delivery.webhook_id = webhook.id)`.mapWith(
    webhookDelivery.deliveredAt,
  ),
};

const prepared = memoizeByDatabase(({ db }) => {
  const mayUse = sql`(${value("owner")}::text is null or ${webhook.owner} = ${value("owner")})`;
  const isNamed = and(eq(webhook.id, value("id")), mayUse);
  const { body, cursor: _, webhookId, ...delivery } = getTableColumns(webhookDelivery);
  const oldest = sql`(
    select id from ${webhookDelivery} as kept where kept.webhook_id = ${value("id")}
    order by id desc offset ${KEPT_DELIVERIES - 1} limit 1)`;
  return {
    list: db
      .select(COLUMNS)
      .from(webhook)
      .where(mayUse)
      .orderBy(webhook.createdAt, webhook.id)
      .prepare("list-webhooks"),
    find: db.select(COLUMNS).from(webhook).where(isNamed).prepare("find-webhook"),
    // drizzle would insert into all columns.
    insert: compileStatement<{ id: string }>(
      "insert-webhook",
      sql`insert into ${webhook} (id, owner, slot, url, filters, chain_ids, finality, cursor, secret)
        select ${value("id")}, ${value("owner")}, case when ${value("owner")}::text is not null then slot end,
          ${value("url")}, ${value("filters")}::jsonb, ${value("chainIds")}::bigint[], ${value("finality")},
          ${value("cursor")}, ${value("secret")}
        from generate_series(1, ${value("max")}::int) as free (slot)
        where not exists (
          select from ${webhook} as taken where taken.owner = ${value("owner")} and taken.slot = free.slot)
        and not exists (select from ${blockedOwner} as blocked where blocked.owner = ${value("owner")})
        and (${value("owner")}::text is null or ${OF_OWNERS} < ${MAX_OF_OWNERS})
        order by slot limit 1
        on conflict do nothing returning id`,
    ),
    countOfOwners: compileStatement<{ count: number }>("count-webhooks-of-owners", sql`select ${OF_OWNERS} as count`),
    pause: db
      .update(webhook)
      .set({ pausedAt: sql`now()`, pausedReason: null })
      .where(and(isNamed, isNull(webhook.pausedAt)))
      .prepare("pause-webhook"),
    resume: db
      .update(webhook)
      .set({ pausedAt: null, pausedReason: null, failingSince: null, nextAttemptAt: null })
      .where(isNamed)
      .prepare("resume-webhook"),
    // A statement is repeated when its connection breaks: the second time, the secret is there.
    rotate: db
      .update(webhook)
      .set({
        secret: sql`${value("secret")}`,
        previousSecret: sql`${webhook.secret}`,
        previousSecretUntil: sql`now() + make_interval(hours => ${ROTATION_HOURS})`,
      })
      .where(and(isNamed, sql`${webhook.secret} <> ${value("secret")}`))
      .prepare("rotate-webhook"),
    delete: db.delete(webhook).where(isNamed).returning({ id: webhook.id }).prepare("delete-webhook"),
    listDeliveries: db
      .select({ ...delivery, body })
      .from(webhookDelivery)
      .where(eq(webhookDelivery.webhookId, value("id")))
      .orderBy(desc(webhookDelivery.id))
      .limit(KEPT_DELIVERIES)
      .prepare("list-webhook-deliveries"),
    prune: db
      .delete(webhookDelivery)
      .where(
        and(
          eq(webhookDelivery.webhookId, value("id")),
          lt(webhookDelivery.id, oldest),
          or(isNull(webhookDelivery.cursor), isNotNull(webhookDelivery.deliveredAt)),
        ),
      )
      .prepare("prune-webhook-deliveries"),
    insertTest: db
      .insert(webhookDelivery)
      .values({
        webhookId: value("id"),
        messageId: value("messageId"),
        type: value("type"),
        body: value("body"),
        askedAt: sql`now()`,
      })
      .onConflictDoNothing()
      .prepare("insert-webhook-test"),
    // One that waits for its turn is tried now; others are sent beside those that wait.
    sendAgain: compileStatement<{ isPaused: boolean }>(
      "send-webhook-delivery-again",
      sql`with asked as (
          update ${webhookDelivery} set
            asked_at = case when cursor is null or delivered_at is not null then coalesce(asked_at, now()) end
          where webhook_id = ${value("id")} and message_id = ${value("messageId")}
          returning webhook_id, asked_at
        ), hurried as (
          update ${webhook} set next_attempt_at = null
          where id in (select webhook_id from asked where asked_at is null) returning paused_at is not null as is_paused
        )
        select coalesce(is_paused, false) as "isPaused" from asked left join hurried on true`,
    ),
  };
});

export type WebhookInfo = Awaited<ReturnType<typeof listWebhooks>>[number];
export type DeliveryInfo = Awaited<ReturnType<typeof listDeliveries>>[number];

/** The webhooks of an owner, or all of them, oldest first. */
export const listWebhooks = (database: Database, owner: string | null) =>
  requireTables(database.run(() => prepared(database).list.execute({ owner })));

/** Null if there is none with this id that the owner may use. */
export const findWebhook = async (database: Database, id: string, owner: string | null): Promise<WebhookInfo | null> =>
  (await requireTables(database.run(() => prepared(database).find.execute({ id, owner }))))[0] ?? null;

const createCursor = ({ chainId, finality, filters, cursor }: NewWebhook): string => {
  if (cursor !== undefined && cursor !== "start") return cursor;
  // On each network the changes after the last second: nothing has to be read, and no network has to answer now.
  const since = cursor === "start" ? 0 : Math.floor(Date.now() / 1000) - 1;
  return encodeChangeCursor(nameChanges(chainId, finality, filters), since, []);
};

/** Attempts to take a slot, which others may take at the same time. */
const MAX_ATTEMPTS = 5;

/**
 * Makes a webhook.
 * @param max - webhooks that the owner may have
 */
export const createWebhook = async (
  database: Database,
  created: NewWebhook & { owner: string | null },
  max: number,
): Promise<{ id: string; secret: string } | "too many" | "blocked" | "full"> => {
  const { owner, url, chainId, filters, finality } = created;
  const id = `wh_${randomBytes(8).toString("hex")}`;
  const secret = generateSecret();
  const values = {
    ...{ id, secret, owner, url, finality, max },
    cursor: createCursor(created),
    filters: JSON.stringify(filters),
    chainIds: chainId,
  };
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const inserted = await requireTables(database.read("checks", prepared(database).insert, values));
    // A statement is repeated when its connection breaks: the first time may have inserted it.
    if (inserted.length > 0 || (await findWebhook(database, id, owner))) return { id, secret };
    if (owner !== null && (await isOwnerBlocked(database, owner))) return "blocked";
    if ((await listWebhooks(database, owner)).length >= max) return "too many";
    const [ofOwners] = await requireTables(database.read("checks", prepared(database).countOfOwners, {}));
    if (owner !== null && (ofOwners?.count ?? 0) >= MAX_OF_OWNERS) return "full";
  }
  return "too many";
};

export const pauseWebhook = async (database: Database, id: string, owner: string | null): Promise<void> => {
  await requireTables(database.run(() => prepared(database).pause.execute({ id, owner })));
};

/** Sends again from where it was, at once. */
export const resumeWebhook = async (database: Database, id: string, owner: string | null): Promise<void> => {
  await requireTables(database.run(() => prepared(database).resume.execute({ id, owner })));
};

/** Replaces the secret. The one before signs too, for a day. @returns the new one */
export const rotateSecret = async (database: Database, id: string, owner: string | null): Promise<string> => {
  const secret = generateSecret();
  await requireTables(database.run(() => prepared(database).rotate.execute({ id, owner, secret })));
  return secret;
};

/** @returns false if there is none */
export const deleteWebhook = async (database: Database, id: string, owner: string | null): Promise<boolean> =>
  (await requireTables(database.run(() => prepared(database).delete.execute({ id, owner })))).length > 0;

/** The newest deliveries, newest first. */
export const listDeliveries = (database: Database, id: string) =>
  requireTables(database.run(() => prepared(database).listDeliveries.execute({ id })));

export const generateMessageId = (): string => `msg_${randomBytes(16).toString("hex")}`;

/** Asks the worker to send a test. @returns its message id */
export const askForTest = async (database: Database, id: string): Promise<string> => {
  const messageId = generateMessageId();
  const type = "webhook.test";
  const body = JSON.stringify({ type, timestamp: new Date().toISOString(), data: { webhook: id } });
  await requireTables(database.run(() => prepared(database).insertTest.execute({ id, messageId, type, body })));
  await pruneDeliveries(database, id);
  return messageId;
};

/** Deletes all but the newest deliveries. */
export const pruneDeliveries = async (database: Database, id: string): Promise<void> => {
  await database.run(() => prepared(database).prune.execute({ id }));
};

/** Asks the worker to send a message again, with the same id. `paused`: it waits for its turn, which does not come. */
export const sendAgain = async (
  database: Database,
  id: string,
  messageId: string,
): Promise<"asked" | "not kept" | "paused"> => {
  const [asked] = await requireTables(database.read("checks", prepared(database).sendAgain, { id, messageId }));
  if (!asked) return "not kept";
  return asked.isPaused ? "paused" : "asked";
};
