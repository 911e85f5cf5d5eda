create table service.api_key (
  id bigint generated always as identity primary key,
  name text not null,
  prefix text not null unique,
  hash text not null unique,
  created_at timestamptz not null default now(),
  revoked_at timestamptz
);
comment on table service.api_key is 'Keys that lift the rate limit on v2. A key itself is stored nowhere.';
comment on column service.api_key.id is 'Its number, which says nothing of the key.';
comment on column service.api_key.name is 'Whom or what it is for.';
comment on column service.api_key.prefix is 'How the key begins: enough to recognise it.';
comment on column service.api_key.hash is 'SHA-256 of the key, in hex.';
comment on column service.api_key.created_at is 'When it was made.';
comment on column service.api_key.revoked_at is 'Since when it does not count any more.';

create table service.api_key_usage (
  api_key_id bigint not null references service.api_key,
  day date not null,
  requests bigint not null,
  last_used_at timestamptz not null,
  primary key (api_key_id, day)
);
comment on table service.api_key_usage is 'How often a key was used on a day. Each API process adds to it every few seconds.';
comment on column service.api_key_usage.api_key_id is 'The key.';
comment on column service.api_key_usage.day is 'The day, in UTC.';
comment on column service.api_key_usage.requests is 'Requests with this key on that day, whatever became of them.';
comment on column service.api_key_usage.last_used_at is 'When the last of them came.';

create table service.usage_writer (
  id uuid primary key,
  batch bigint not null,
  written_at timestamptz not null
);
comment on table service.usage_writer is 'API processes that write usage: what one sends twice, because no answer came, counts once.';
comment on column service.usage_writer.id is 'The process, from its start to its end.';
comment on column service.usage_writer.batch is 'The last batch of counts that was added.';
comment on column service.usage_writer.written_at is 'When that was.';
