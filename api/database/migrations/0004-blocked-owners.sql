create table service.blocked_owner (
  owner text primary key,
  blocked_at timestamptz not null default now()
);
comment on table service.blocked_owner is 'Accounts whose keys are refused, and which cannot create others.';
comment on column service.blocked_owner.owner is 'The account, as in api_key.';
comment on column service.blocked_owner.blocked_at is 'Time since when it is blocked.';
