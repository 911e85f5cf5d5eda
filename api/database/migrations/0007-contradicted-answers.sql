create table service.contradicted (
  chain_id bigint not null,
  wallet text not null,
  block bigint not null,
  found_at timestamptz not null default clock_timestamp(),
  primary key (chain_id, wallet)
);
comment on table service.contradicted is 'Wallets about which a proof said something else than the index, for a day. The indexer compares them next.';
comment on column service.contradicted.chain_id is 'The network.';
comment on column service.contradicted.wallet is 'The vault of the check.';
comment on column service.contradicted.block is 'The block of the proof.';
comment on column service.contradicted.found_at is 'When a proof was last seen to say something else.';
-- To whoever may use the schema: besides the owner, only the indexer.
grant select on service.contradicted to public;
