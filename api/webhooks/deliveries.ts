import { sql } from "drizzle-orm";
import type { Filters, Finality } from "../changes/filters.ts";
import type { Database } from "../database/database.ts";
import { compileStatement } from "../database/statement.ts";
import { blockedOwner, webhook, webhookDelivery } from "../database/tables.ts";
import type { Outcome } from "./send-message.ts";

// What the worker reads and writes. Times are Postgres' own: all processes share its clock.

/** A webhook that gets messages, as far as the worker has to know all of them. */
export type ListedWebhook = {
  id: string;
  owner: string | null;
  filters: Filters;
  chainIds: readonly number[];
  finality: Finality;
  isFailing: boolean;
  isDue: boolean;
  /** How long its next message has waited; null if none does. */
  waitedSeconds: number | null;
};

/** Where to send a message, and what signs it. */
export type Receiver = { id: string; url: string; secrets: string[] };

export type Delivery = { deliveryId: string; messageId: string; body: string };

export type AskedDelivery = Receiver & Delivery & Pick<ListedWebhook, "owner">;

/** A message that has been sent, and may have arrived: it comes before all others. */
type Pending = Delivery & { after: string };

export type DueWebhook = Receiver &
  Pick<ListedWebhook, "filters" | "chainIds" | "finality"> & { cursor: string; pending: Pending | null };

/** A message, and the cursor of its webhook once it is delivered. */
export type NewMessage = { type: string; body: string; after: string };

/** Time without a delivery after which a webhook is paused. */
const GIVE_UP = sql`interval '3 days'`;
/** Each pause is as long as the time since the first failure: pauses double, between these. */
const FIRST_PAUSE = sql`interval '5 seconds'`;
const LONGEST_PAUSE = sql`interval '6 hours'`;
/** The receiver says that it is no more. */
const GONE = 410;
/** Deletes a webhook of an owner after it has been paused for this long. */
const FORGOTTEN = sql`interval '90 days'`;

const value = sql.placeholder;

/** The exact time of an attempt without an answer would tell how long a name took to find: which our networks have. */
const NOW = sql`date_trunc('second', now())`;

/** A user or the service has paused it, or its owner is blocked. */
const IS_PAUSED = sql`(w.paused_at is not null
  or exists (select from ${blockedOwner} as blocked where blocked.owner = w.owner))`;
const IS_DUE = sql`coalesce(w.next_attempt_at <= now(), true)`;
const IS_PENDING = sql`(d.cursor is not null and d.delivered_at is null)`;
const QUESTION = sql`w.id, w.filters, w.chain_ids::float8[] as "chainIds", w.finality`;
const SECRETS = sql`array_remove(
  array[w.secret, case when w.previous_secret_until > now() then w.previous_secret end], null) as secrets`;

const LIST = compileStatement<ListedWebhook>(
  "list-active-webhooks",
  sql`select ${QUESTION}, w.owner, w.failing_since is not null as "isFailing", ${IS_DUE} as "isDue",
      extract(epoch from now() - d.created_at)::float8 as "waitedSeconds"
    from ${webhook} as w left join ${webhookDelivery} as d on d.webhook_id = w.id and ${IS_PENDING}
    where not ${IS_PAUSED}`,
);

const COUNT_PAUSED = compileStatement<{ paused: number }>(
  "count-paused-webhooks",
  sql`select count(*)::int as paused from ${webhook} as w where ${IS_PAUSED}`,
);

const FIND = compileStatement<Omit<DueWebhook, "pending"> & { [Field in keyof Pending]: Pending[Field] | null }>(
  "find-due-webhook",
  sql`select ${QUESTION}, w.url, ${SECRETS}, w.cursor,
      d.id as "deliveryId", d.message_id as "messageId", d.body, d.cursor as after
    from ${webhook} as w left join ${webhookDelivery} as d on d.webhook_id = w.id and ${IS_PENDING}
    where w.id = ${value("id")} and not ${IS_PAUSED} and ${IS_DUE}`,
);

/** None if the webhook is paused, deleted, or not at this cursor any more, or has another message that is pending. */
const BEGIN = compileStatement<Receiver & { deliveryId: string }>(
  "begin-webhook-delivery",
  sql`with receiver as (
      select w.id, w.url, ${SECRETS} from ${webhook} as w
      where w.id = ${value("id")} and w.cursor = ${value("before")} and not ${IS_PAUSED}
    ), begun as (
      insert into ${webhookDelivery} (webhook_id, message_id, type, body, cursor)
      select id, ${value("messageId")}::text, ${value("type")}::text, ${value("body")}::text, ${value("after")}::text
      from receiver on conflict do nothing returning id
    )
    select receiver.*, begun.id as "deliveryId" from receiver, begun`,
);

const SENT = sql`attempts = attempts + 1, sent_at = ${NOW}, status = ${value("status")}::int, error = ${value("error")}::text,
  answer = ${value("answer")}::text, milliseconds = ${value("milliseconds")}::int,
  delivered_at = coalesce(delivered_at, case when ${value("isDelivered")}::boolean then ${NOW} end)`;

/** None if another process has delivered it. */
const SETTLE = compileStatement<{ isGivenUp: boolean }>(
  "settle-webhook-delivery",
  sql`with sent as (
      update ${webhookDelivery} set ${SENT} where id = ${value("deliveryId")} and delivered_at is null
      returning webhook_id, cursor, delivered_at is not null as is_delivered, status, error
    )
    update ${webhook} as w set
      cursor = case when is_delivered then sent.cursor else w.cursor end,
      failing_since = case when not is_delivered then coalesce(failing_since, ${NOW}) end,
      next_attempt_at = case when not is_delivered then least(
        ${NOW} + greatest(${FIRST_PAUSE}, least(${LONGEST_PAUSE}, ${NOW} - coalesce(failing_since, ${NOW}))),
        coalesce(failing_since, ${NOW}) + ${GIVE_UP}) end,
      paused_at = case when not is_delivered and (status = ${sql.raw(`${GONE}`)} or now() >= failing_since + ${GIVE_UP})
        then coalesce(paused_at, ${NOW}) else paused_at end,
      paused_reason = case
        when is_delivered or paused_at is not null then paused_reason
        when status = ${sql.raw(`${GONE}`)} then 'The receiver answered 410 Gone.'
        when now() >= failing_since + ${GIVE_UP} then 'No message was delivered for three days. The last attempt: ' || error
      end
    from sent where w.id = sent.webhook_id
    returning paused_at is not null and paused_reason is not null as "isGivenUp"`,
);

const SAVE = compileStatement<object>(
  "save-webhook-cursor",
  sql`update ${webhook} set cursor = ${value("after")}::text where id = ${value("id")} and cursor = ${value("before")}::text`,
);

const ASKED = compileStatement<AskedDelivery>(
  "list-asked-webhook-deliveries",
  sql`select * from (
      select distinct on (w.id) w.id, w.owner, w.url, ${SECRETS}, d.id as "deliveryId", d.message_id as "messageId", d.body,
        d.asked_at
      from ${webhookDelivery} as d join ${webhook} as w on w.id = d.webhook_id
      where d.asked_at is not null and not exists (select from ${blockedOwner} as blocked where blocked.owner = w.owner)
      order by w.id, d.asked_at, d.id
    ) as asked order by asked_at, "deliveryId" limit 100`,
);

const SETTLE_ASKED = compileStatement<object>(
  "settle-asked-webhook-delivery",
  sql`update ${webhookDelivery} set ${SENT}, asked_at = null where id = ${value("deliveryId")}`,
);

const FORGET = [
  compileStatement<object>(
    "forget-paused-webhooks",
    sql`delete from ${webhook} where owner is not null and paused_at < now() - ${FORGOTTEN}`,
  ),
  compileStatement<object>(
    "forget-webhook-secrets",
    sql`update ${webhook} set previous_secret = null, previous_secret_until = null where previous_secret_until <= now()`,
  ),
];

/** All but those that are paused. */
export const listActiveWebhooks = (database: Database): Promise<ListedWebhook[]> => database.read("checks", LIST, {});

export const countPausedWebhooks = async (database: Database): Promise<number> =>
  (await database.read("checks", COUNT_PAUSED, {}))[0]?.paused ?? 0;

/** Null if nothing may be sent to it now. */
export const findDueWebhook = async (database: Database, id: string): Promise<DueWebhook | null> => {
  const [found] = await database.read("checks", FIND, { id });
  if (!found) return null;
  const { deliveryId, messageId, body, after, ...due } = found;
  const isPending = deliveryId !== null && messageId !== null && body !== null && after !== null;
  return { ...due, pending: isPending ? { deliveryId, messageId, body, after } : null };
};

/**
 * Stores a message before it is first sent. An answer may get lost: whatever becomes of the message's change, the
 * receiver may have it, and must learn of its undoing.
 */
export const beginDelivery = async (
  database: Database,
  message: NewMessage & { id: string; messageId: string; before: string },
): Promise<(Receiver & Delivery) | null> => {
  const [begun] = await database.read("checks", BEGIN, message);
  return begun ? { ...begun, messageId: message.messageId, body: message.body } : null;
};

/** Stores what became of a message. The cursor moves if it is delivered. */
export const settleDelivery = async (
  database: Database,
  { deliveryId }: Pick<Delivery, "deliveryId">,
  outcome: Outcome,
): Promise<{ isGivenUp: boolean } | null> =>
  (await database.read("checks", SETTLE, { deliveryId, ...outcome }))[0] ?? null;

/** Moves a cursor beyond changes that the webhook is not told of. */
export const saveCursor = async (
  database: Database,
  moved: { id: string; before: string; after: string },
): Promise<void> => {
  await database.read("checks", SAVE, moved);
};

/** Lists tests, and messages to send again: one of each webhook, in the order of the requests. */
export const listAskedDeliveries = (database: Database): Promise<AskedDelivery[]> => database.read("checks", ASKED, {});

export const settleAskedDelivery = async (
  database: Database,
  { deliveryId }: Pick<Delivery, "deliveryId">,
  outcome: Outcome,
): Promise<void> => {
  await database.read("checks", SETTLE_ASKED, { deliveryId, ...outcome });
};

/** Deletes webhooks of owners that were paused long ago, and secrets that are valid no more. */
export const forgetOldWebhooks = async (database: Database): Promise<void> => {
  for (const statement of FORGET) await database.read("checks", statement, {});
};
