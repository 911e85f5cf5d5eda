create table service.webhook (
  id text primary key,
  owner text,
  slot integer,
  url text not null,
  filters jsonb not null,
  chain_ids bigint[] not null,
  finality text not null,
  cursor text not null,
  secret text not null,
  previous_secret text,
  previous_secret_until timestamptz,
  created_at timestamptz not null default now(),
  failing_since timestamptz,
  next_attempt_at timestamptz,
  paused_at timestamptz,
  paused_reason text,
  constraint webhook_owner_has_slot check ((owner is null) = (slot is null))
);
create unique index webhook_slot on service.webhook (owner, slot);
comment on table service.webhook is 'Who is told of changes. The log of changes is the queue: a webhook has its place in it.';
comment on column service.webhook.id is 'A random name.';
comment on column service.webhook.owner is 'The account, as in api_key. Null: the operator made it.';
comment on column service.webhook.slot is 'Its place among the webhooks that its owner may have, as in api_key.';
comment on column service.webhook.url is 'Where messages go.';
comment on column service.webhook.filters is 'The filters of GET /changes, except networks.';
comment on column service.webhook.chain_ids is 'The networks; all if empty.';
comment on column service.webhook.finality is 'final or latest.';
comment on column service.webhook.cursor is 'A cursor of GET /changes: everything before it has been delivered.';
comment on column service.webhook.secret is 'Signs messages. Readable, because a signature needs it.';
comment on column service.webhook.previous_secret is 'The secret before the last rotation, which signs too for a while.';
comment on column service.webhook.previous_secret_until is 'Until when it does.';
comment on column service.webhook.created_at is 'When it was made.';
comment on column service.webhook.failing_since is 'Since when no message has been delivered, although one was sent.';
comment on column service.webhook.next_attempt_at is 'When to try again. Null: as soon as there is a message.';
comment on column service.webhook.paused_at is 'Since when nothing is sent.';
comment on column service.webhook.paused_reason is 'Why the service paused it. Null: a user did.';

create table service.webhook_delivery (
  id bigint generated always as identity primary key,
  webhook_id text not null references service.webhook on delete cascade,
  message_id text not null,
  type text not null,
  body text not null,
  cursor text,
  asked_at timestamptz,
  attempts integer not null default 0,
  sent_at timestamptz,
  status integer,
  error text,
  answer text,
  milliseconds integer,
  delivered_at timestamptz,
  created_at timestamptz not null default date_trunc('second', now())
);
create unique index webhook_delivery_message on service.webhook_delivery (webhook_id, message_id);
create unique index webhook_delivery_pending on service.webhook_delivery (webhook_id)
  where cursor is not null and delivered_at is null;
create index webhook_delivery_newest on service.webhook_delivery (webhook_id, id);
create index webhook_delivery_asked on service.webhook_delivery (asked_at) where asked_at is not null;
comment on table service.webhook_delivery is 'The newest messages of each webhook. One that was sent but not delivered stays as it is: the receiver may have it.';
comment on column service.webhook_delivery.id is 'Its number.';
comment on column service.webhook_delivery.webhook_id is 'The webhook.';
comment on column service.webhook_delivery.message_id is 'The header webhook-id, the same in each attempt.';
comment on column service.webhook_delivery.type is 'The type of the message.';
comment on column service.webhook_delivery.body is 'What is sent.';
comment on column service.webhook_delivery.cursor is 'The cursor of the webhook once it is delivered. Null for a test.';
comment on column service.webhook_delivery.asked_at is 'When a user requested that it be sent, or sent again, out of turn. Null: no request waits.';
comment on column service.webhook_delivery.attempts is 'How often it was sent.';
comment on column service.webhook_delivery.sent_at is 'When it was sent last.';
comment on column service.webhook_delivery.status is 'The status of the last answer. Null: there was none.';
comment on column service.webhook_delivery.error is 'Why the last attempt is no delivery.';
comment on column service.webhook_delivery.answer is 'How the body of the last answer begins.';
comment on column service.webhook_delivery.milliseconds is 'How long the last attempt took.';
comment on column service.webhook_delivery.delivered_at is 'When the receiver first took it.';
comment on column service.webhook_delivery.created_at is 'When it was made.';

create table service.webhook_worker (
  is_only boolean primary key default true check (is_only),
  id uuid not null,
  expires_at timestamptz not null
);
comment on table service.webhook_worker is 'The API process that sends messages: one at a time.';
comment on column service.webhook_worker.is_only is 'Always true: there is one row.';
comment on column service.webhook_worker.id is 'The process.';
comment on column service.webhook_worker.expires_at is 'When another one may take over, unless it extends this.';
