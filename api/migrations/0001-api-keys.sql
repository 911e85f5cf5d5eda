create table service.api_key (
  id bigint generated always as identity primary key,
  name text not null,
  prefix text not null unique,
  hash text not null unique,
  created_at timestamptz not null default now(),
  revoked_at timestamptz
);
comment on table service.api_key is 'Keys that lift the rate limit on v2. A key itself is stored nowhere.';
comment on column service.api_key.name is 'Whom or what it is for.';
comment on column service.api_key.prefix is 'How the key begins: enough to recognise it.';
comment on column service.api_key.hash is 'SHA-256 of the key, in hex.';
comment on column service.api_key.revoked_at is 'Since when it does not count any more.';

create table service.api_key_usage (
  api_key_id bigint not null references service.api_key,
  day date not null,
  requests bigint not null,
  last_used_at timestamptz not null,
  primary key (api_key_id, day)
);
comment on table service.api_key_usage is 'How often a key was used on a day, in UTC. Each API process adds to it every few seconds.';
