alter table service.api_key add column owner text, add column slot integer;
alter table service.api_key add constraint api_key_owner_has_slot check ((owner is null) = (slot is null));
create unique index api_key_slot on service.api_key (owner, slot) where revoked_at is null;
create index api_key_owner on service.api_key (owner, id) where owner is not null;
comment on column service.api_key.owner is 'The account that made it on the developer page: an address, or for a contract wallet eip155:<chainId>:<address>. Null: the operator made it.';
comment on column service.api_key.slot is 'Its place among the keys that its owner may have at a time: no two have the same, so that none can be made beyond the limit.';

create table service.sign_in (
  nonce text primary key,
  browser text not null,
  wallet text not null,
  chain_id bigint not null,
  expires_at timestamptz not null
);
create index sign_in_expires_at on service.sign_in (expires_at);
comment on table service.sign_in is 'Sign-ins to the developer page that were begun. Each ends with the attempt to finish it, or when its time is over.';
comment on column service.sign_in.nonce is 'What its message has that no other message does.';
comment on column service.sign_in.browser is 'SHA-256, in hex, of the cookie of the browser that began it.';
comment on column service.sign_in.wallet is 'The wallet that wants to sign in, in lower case.';
comment on column service.sign_in.chain_id is 'The network that the wallet is on.';
comment on column service.sign_in.expires_at is 'Until when it can be finished.';

create table service.session (
  token text primary key,
  owner text not null,
  expires_at timestamptz not null
);
create index session_expires_at on service.session (expires_at);
comment on table service.session is 'Who is signed in to the developer page. What a browser is known by is stored nowhere.';
comment on column service.session.token is 'SHA-256, in hex, of the cookie.';
comment on column service.session.owner is 'The account, as in api_key.';
comment on column service.session.expires_at is 'When it is over.';
