/** Creates the indexers' own tables, in the schema "indexer". */
export const CREATE_TABLES = `
  create schema if not exists indexer;
  create table if not exists indexer.start_block (
    chain_id bigint not null,
    registry text not null,
    address text not null,
    block bigint not null,
    found_at timestamptz not null default now(),
    primary key (chain_id, registry, address)
  );
  create table if not exists indexer.index (
    schema text primary key,
    shard text not null,
    started_at timestamptz not null
  );
  -- the chains of each index and its progress: explains why a shard does not answer yet
  create table if not exists indexer.chain (
    schema text not null references indexer.index on delete cascade,
    chain_id bigint not null,
    -- the chain's newest block at seen_at: the API answers for a quiet chain while this is its indexed block
    newest_number bigint not null,
    newest_timestamp bigint not null,
    -- the newest block whose events are stored
    reached_number bigint not null,
    -- the addresses of the indexed registries
    v1 text,
    v2 text,
    seen_at timestamptz not null,
    primary key (schema, chain_id)
  );
  -- These columns are newer than the table. "add column if not exists" would wait for all readers even if they exist.
  do $$ begin
    if not exists (select from pg_attribute where attrelid = 'indexer.chain'::regclass and attname = 'start_number') then
      -- the first indexed block, of either registry
      alter table indexer.chain add column start_number bigint;
    end if;
    if not exists (select from pg_attribute where attrelid = 'indexer.chain'::regclass and attname = 'serve_from') then
      -- the chain's newest block when Ponder started: readers may have seen it, and see no earlier one
      alter table indexer.chain add column serve_from bigint not null default 0;
      -- how often Ponder was restarted because the chain's index did not move
      alter table indexer.chain add column restarts bigint not null default 0;
      -- the last valid block, while another index has found that a reorg has replaced later ones
      alter table indexer.chain add column valid_number bigint;
    end if;
    if not exists (select from pg_attribute where attrelid = 'indexer.chain'::regclass and attname = 'verified_number') then
      -- the block up to which all changed wallets agree with the registries; null while the index is not proven: the
      -- chain is not served
      alter table indexer.chain add column verified_number bigint;
      -- comparisons of a wallet with the registries that agreed, and when the last one did
      alter table indexer.chain add column verified_wallets bigint not null default 0;
      alter table indexer.chain add column verified_at timestamptz;
      -- a difference from the registries that has not been healed
      alter table indexer.chain add column difference text;
    end if;
  end $$;
  -- final blocks that the rows of an index are based on, to detect a reorg that is deeper than final
  create table if not exists indexer.final_block (
    schema text not null references indexer.index on delete cascade,
    chain_id bigint not null,
    number bigint not null,
    hash text not null,
    primary key (schema, chain_id, number)
  );
  -- totals up to a final block, for queries over all time
  create table if not exists indexer.summary (
    schema text not null references indexer.index on delete cascade,
    chain_id bigint not null,
    block bigint not null,
    -- false until the summary has reached a final block once: until then the rest of the log is long
    complete boolean not null,
    primary key (schema, chain_id)
  );
  create table if not exists indexer.daily_summary (
    schema text not null references indexer.index on delete cascade,
    chain_id bigint not null,
    day date not null,
    registry text not null,
    type text not null,
    made bigint not null,
    changed bigint not null,
    revoked bigint not null,
    primary key (schema, chain_id, day, registry, type)
  );
  create table if not exists indexer.contract_summary (
    schema text not null references indexer.index on delete cascade,
    chain_id bigint not null,
    contract text not null,
    made bigint not null,
    revoked bigint not null,
    primary key (schema, chain_id, contract)
  );
  create table if not exists indexer.shard (
    name text primary key,
    -- the index behind the shard's views
    schema text not null,
    -- false after a start, until Ponder has indexed the history
    caught_up boolean not null,
    since timestamptz not null
  )`;
