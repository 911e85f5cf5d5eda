import { checkRule, fromActive, fromLog } from "../../registry/check-rule.ts";
import { CHECK_NAMES, CHECKS, type Check, isBalanceCheck, takes, takesByName } from "../../registry/checks.ts";
import { FULL_RIGHTS, MAX_UINT256, NO_CONTRACT, NO_TOKEN } from "../../registry/delegation.ts";
import { askAnyCheck, otherEnd, type Source, selectCandidates, selectGrants } from "../../registry/grants.ts";
import type { End } from "../../registry/state-at.ts";
import { DIGEST_WORDS, sumDigests } from "../../registry/state-digest.ts";
import { activeDelegations, selectDelegationsAt, selectPeriods } from "./shard-tables.ts";
import { DELEGATION, DELEGATIONS, selectColumns } from "./views.ts";

export type SqlFunction = {
  name: string;
  /** Name, type and default of each argument. */
  args: readonly string[];
  returns: string;
  /** Postgres's attributes of the function. */
  options: string;
  body: string;
  comment: string;
};

/** For a function that reads no table. */
const PURE = "immutable parallel safe set search_path = pg_catalog, pg_temp";

/** For a function that reads tables which its callers may not read. Its body qualifies every name with a schema. */
const READING = "stable parallel safe security definer set search_path = pg_catalog, pg_temp";

/** For a function whose every query has an index, which Postgres would not use before it has statistics. */
const PROBING = `${READING} set enable_seqscan = off set plan_cache_mode = force_generic_plan`;

const raise = (message: string, values: string, kind: "invalid_parameter_value" | "object_not_in_prerequisite_state") =>
  `raise exception using errcode = '${kind}', message = format('${message}', ${values})`;

export const CHAINS_OF: SqlFunction = {
  name: "analytics.chains_of",
  args: ["shard text"],
  returns: "bigint[]",
  options: READING,
  body: `
begin
  return array(select chain.chain_id from analytics.chains chain where chain.shard = chains_of.shard);
end`,
  comment: "The chains that a shard answers for. The views use it to show each chain once. shard: its name.",
};

const PARSING: readonly SqlFunction[] = [
  {
    name: "analytics.parse_address",
    args: ["address text", "argument text default 'address'"],
    returns: "text",
    options: PURE,
    body: `
begin
  if address ~* '^0x[0-9a-f]{40}$' then return lower(address); end if;
  ${raise("%s must be 0x and 40 hex digits, not %L", "argument, address", "invalid_parameter_value")};
end`,
    comment:
      "Converts an address to its stored form, lower-case. address: 0x and 40 hex digits, in any letter case; anything else raises an exception. argument: the name to use in the exception.",
  },
  {
    name: "analytics.parse_rights",
    args: ["rights text"],
    returns: "text",
    options: PURE,
    body: `
begin
  if rights is null or rights ~* '^(0x)?$' then return '${FULL_RIGHTS}'; end if;
  if rights ~* '^0x[0-9a-f]{64}$' then return lower(rights); end if;
  if rights !~* '^0x' and octet_length(convert_to(rights, 'UTF8')) <= 31 then
    return '0x' || rpad(encode(convert_to(rights, 'UTF8'), 'hex'), 64, '0');
  end if;
  ${raise("rights must be 0x and 64 hex digits, or a text of at most 31 bytes, not %L", "rights", "invalid_parameter_value")};
end`,
    comment:
      "Converts rights to bytes32 in lower-case hex. rights: 0x and 64 hex digits, or a text of at most 31 bytes; null, empty and 0x are full rights (zero); anything else raises an exception.",
  },
  {
    name: "analytics.parse_token_id",
    args: ["token_id numeric"],
    returns: "numeric",
    options: PURE,
    body: `
begin
  if token_id between 0 and ${MAX_UINT256} and token_id = trunc(token_id) then return trunc(token_id); end if;
  ${raise("token_id must be a whole number from 0 to 2^256-1, not %s", "coalesce(token_id::text, 'null')", "invalid_parameter_value")};
end`,
    comment:
      "Checks a token id and returns it, without decimals. token_id: a whole number from 0 to 2^256-1; anything else raises an exception.",
  },
];

const KNOWN_BLOCK: SqlFunction = {
  name: "analytics.known_block",
  args: ["chain_id bigint", "registry text default null", "at_block bigint default null"],
  returns: "bigint",
  options: READING,
  body: `
declare
  chain analytics.chains;
begin
  if chain_id is null then
    raise exception using errcode = 'invalid_parameter_value', message = 'chain_id must not be null';
  end if;
  if at_block < 0 then
    ${raise("at_block must not be negative, but is %s", "at_block", "invalid_parameter_value")};
  end if;
  select known.* into chain from analytics.chains known where known.chain_id = known_block.chain_id;
  if chain.chain_id is null then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = format('Chain %s is not indexed here', chain_id),
      hint = format('Indexed chains: %s.',
        coalesce((select string_agg(known.chain_id::text, ', ' order by known.chain_id) from analytics.chains known), 'none yet'));
  end if;
  if chain.indexed_block is null then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = format('Chain %s is still being indexed: its index has reached block %s of %s', chain_id, chain.reached_block, chain.newest_block),
      hint = 'Ask again when analytics.chains has an indexed_block for it.';
  end if;
  if registry = 'v1' and chain.registry_v1 is null or registry = 'v2' and chain.registry_v2 is null then
    ${raise("The %s registry is not indexed on chain %s", "registry, chain_id", "object_not_in_prerequisite_state")};
  end if;
  if at_block > chain.indexed_block then
    raise exception using errcode = 'object_not_in_prerequisite_state',
      message = format('Block %s of chain %s is not indexed yet: the newest indexed block is %s', at_block, chain_id, chain.indexed_block);
  end if;
  return coalesce(at_block, chain.indexed_block);
end`,
  comment:
    "The block that an answer is valid at: at_block, or the newest indexed one. Raises an exception if there is no answer: the chain is not indexed here, is catching up, has no such registry, or has not reached that block. chain_id: the chain. registry: v1, v2 or, by default, any. at_block: a past block, by default the newest.",
};

/** The arguments of a check besides the wallets and the block, with their conversion and their value if absent. */
const ARGUMENTS = {
  contract: { arg: "contract text", parse: "analytics.parse_address(contract, 'contract')", zero: `'${NO_CONTRACT}'` },
  tokenId: { arg: "token_id numeric", parse: "analytics.parse_token_id(token_id)", zero: `${NO_TOKEN}` },
  rights: { arg: "rights text default null", parse: "analytics.parse_rights(rights)", zero: `'${FULL_RIGHTS}'` },
} as const;

type Argument = keyof typeof ARGUMENTS;

const WALLETS = {
  v1: { delegate: "delegate", vault: "vault", argument: (name: string) => name },
  v2: { delegate: "to", vault: "from", argument: (name: string) => `"${name}"` },
} as const;

const defineCheck = (check: Check): SqlFunction => {
  const { version, name, meaning } = check;
  const { delegate, vault, argument } = WALLETS[version];
  const value = (argument: Argument) => (takes(check, argument) ? ARGUMENTS[argument].parse : ARGUMENTS[argument].zero);
  const answer = (from: Parameters<typeof checkRule>[0]) =>
    `(select ${checkRule(from, check)}
  from (values (chain_id, asked_vault, asked_delegate, asked_contract, asked_token_id, asked_rights, at_block))
    as q (chain_id, vault, delegate, contract, token_id, rights, block))`;
  return {
    name: `analytics.check_${name}${version === "v1" ? "_v1" : ""}`,
    args: [
      "chain_id bigint",
      `${argument(delegate)} text`,
      `${argument(vault)} text`,
      ...check.takes.map((argument) => ARGUMENTS[argument].arg),
      "at_block bigint default null",
    ],
    returns: check.returns === "balance" ? "numeric" : "boolean",
    options: PROBING,
    // Of two things with the same name the column is used: the body copies its arguments into constants.
    body: `
#variable_conflict use_column
declare
  asked_vault constant text := analytics.parse_address(${argument(vault)}, '${vault}');
  asked_delegate constant text := analytics.parse_address(${argument(delegate)}, '${delegate}');
  asked_contract constant text := ${value("contract")};
  asked_token_id constant numeric := ${value("tokenId")};
  asked_rights constant text := ${value("rights")};
begin
  perform analytics.known_block(chain_id, '${version}', at_block);
  if at_block is null then
    return ${answer(fromActive(activeDelegations(version), version))};
  end if;
  return ${answer(fromLog("indexer.delegation_change", version))};
end`,
    comment: [
      `${meaning} It follows the ${version} registry's own rule, as the API does.`,
      "Raises an exception if the answer is not known.",
      `chain_id: the chain. ${delegate}: the delegate (hot wallet). ${vault}: the vault (cold wallet).`,
      takes(check, "contract") && "contract: the contract.",
      takes(check, "tokenId") && "token_id: the token.",
      takes(check, "rights") &&
        "rights: the rights required, as bytes32 in hex or a text of at most 31 bytes; by default, full rights. A delegation with full rights satisfies any.",
      "at_block: a past block, by default the newest indexed one.",
    ]
      .filter((sentence) => sentence !== false)
      .join(" "),
  };
};

const quote = (names: readonly string[]) => names.map((name) => `'${name}'`).join(", ");

/** Selects the wallets at the other end of a wallet's delegations that satisfy a check, with the broadest delegation. */
const selectWalletsOf = (end: End, moment: Source["moment"]): string => {
  const source: Source = {
    active: activeDelegations,
    log: "indexer.delegation_change",
    moment,
    condition: "true",
  };
  const asked = askAnyCheck({ check: "asked_check", registry: "asked_registry" });
  const first = (column: string) => `(array_agg(${column} order by breadth, block_number, log_index))[1]`;
  const other = otherEnd(end);
  return `
  select chain_id, ${other}, max(gives), array_agg(distinct registry order by registry),
    ${first(DELEGATION.type[0])}, ${first(DELEGATION.token_standard[0])},
    ${first("block_number")}, to_timestamp(${first("block_timestamp")}), ${first("transaction_hash")}, count(*)
  from (
    select q.chain_id, q.${other}, found.*
    from (
      select q.*, q.wallet as ${end}, candidate.other as ${other}
      from (
        select asked.chain_id, asked_wallet as wallet, asked_contract as contract, asked_token_id as token_id,
          asked_rights as rights, -1 as after_breadth, 0 as after_block, 0 as after_log, null::bigint as rows,
          coalesce(at_block, (
            select change.block_number from indexer.delegation_change change
            where change.chain_id = asked.chain_id and change.block_timestamp <= asked_time
            order by change.block_timestamp desc, change.block_number desc limit 1)) as block
        from unnest(asked_chains) as asked (chain_id)
      ) q
      cross join lateral (select distinct other from (${selectCandidates(source, end, asked)}) candidates) candidate
    ) q
    cross join lateral (${selectGrants(source, asked)}) found
  ) granted
  group by chain_id, ${other}
  order by chain_id, min(breadth), ${first("block_number")}, ${first("log_index")}`;
};

const defineWalletsOf = (end: End): SqlFunction => {
  const other = otherEnd(end);
  const balances = CHECK_NAMES.filter(isBalanceCheck);
  const withToken = CHECK_NAMES.filter((name) => takesByName(name, "tokenId"));
  const refuse = (message: string, values = "asked_check") => raise(message, values, "invalid_parameter_value");
  return {
    name: `analytics.${other}s_of`,
    args: [
      "wallet text",
      "contract text default null",
      "token_id numeric default null",
      "rights text default null",
      '"check" text default null',
      "registry text default 'both'",
      "chain_ids bigint[] default null",
      "at_block bigint default null",
      "at_time timestamptz default null",
    ],
    returns: `table (chain_id bigint, ${other} text, amount numeric, registries text[], type text, token_standard text, since_block bigint, since timestamptz, transaction_hash text, delegations bigint)`,
    options: PROBING,
    // Of two things with the same name the column is used: the body copies its arguments into constants.
    body: `
#variable_conflict use_column
declare
  asked_wallet constant text := analytics.parse_address(wallet, 'wallet');
  asked_contract constant text := case when contract is null then ${ARGUMENTS.contract.zero} else ${ARGUMENTS.contract.parse} end;
  asked_token_id constant numeric := case when token_id is null then ${ARGUMENTS.tokenId.zero} else ${ARGUMENTS.tokenId.parse} end;
  asked_rights constant text := ${ARGUMENTS.rights.parse};
  asked_check constant text := coalesce("check", case when token_id is not null then 'token' when contract is not null then 'contract' else 'all' end);
  asked_registry constant text := registry;
  asked_chains constant bigint[] := case when chain_ids is not null then array(select distinct unnest(chain_ids))
    else array(select chain.chain_id from analytics.chains chain
      where asked_registry = 'both' or case asked_registry when 'v1' then chain.registry_v1 else chain.registry_v2 end is not null) end;
  asked_time constant bigint := floor(extract(epoch from at_time));
  chain analytics.chains;
begin
  if asked_check not in (${quote(CHECK_NAMES)}) then
    ${refuse(`check must be one of ${CHECK_NAMES.join(" ")}, not %L`)};
  end if;
  if (contract is not null) <> (asked_check <> 'all') then
    ${refuse("the check %s needs a contract, and only all has none")};
  end if;
  if (token_id is not null) <> (asked_check in (${quote(withToken)})) then
    ${refuse(`token_id is for the checks ${withToken.join(" ")}, which need it, not for %s`)};
  end if;
  if asked_registry is null or asked_registry not in ('v1', 'v2', 'both') then
    ${refuse("registry must be v1, v2 or both, not %L", "asked_registry")};
  end if;
  if asked_registry = 'v1' and asked_check in (${quote(balances)}) then
    ${refuse("the check %s is for balances, which only v2 has")};
  end if;
  if at_block is not null and (at_time is not null or cardinality(asked_chains) > 1) then
    raise exception using errcode = 'invalid_parameter_value', message = 'at_block is for one chain: use at_time for several, not both';
  end if;
  for chain in select known.* from analytics.chains known where known.chain_id = any (asked_chains) loop
    if asked_time >= extract(epoch from chain.indexed_block_timestamp) then
      ${raise("Chain %s is indexed up to %s, not yet beyond %s", "chain.chain_id, chain.indexed_block_timestamp, at_time", "object_not_in_prerequisite_state")};
    end if;
  end loop;
  perform analytics.known_block(asked.chain_id, nullif(asked_registry, 'both'), at_block) from unnest(asked_chains) as asked (chain_id);
  if at_block is null and at_time is null then
    return query ${selectWalletsOf(end, "now")};
  else
    return query ${selectWalletsOf(end, "past")};
  end if;
end`,
    comment: [
      end === "delegate"
        ? "The vaults for which a wallet may act: all for which the check is true, or its balance above 0."
        : "The delegates that may act for a wallet: all for which the check is true, or its balance above 0.",
      "The same rows as the API's, one for each chain and wallet. Raises an exception if the answer is not known for one of the chains.",
      "wallet: the wallet. contract: the contract to act for, by default the whole wallet. token_id: the token to act for, by default the whole contract.",
      "rights: the rights required, by default full rights. check: by default all, contract or token, by the arguments; token is for a token of any standard.",
      "registry: v1, v2 or both. chain_ids: the chains, by default all. at_block: a past block of one chain. at_time: a past time.",
      `Columns: chain_id: the chain. ${other}: the other wallet. amount: the balance that the check grants. registries: those that grant it.`,
      "type: the type of the broadest delegation that grants it. token_standard: its standard. since_block: its block. since: the time of that block. transaction_hash: its transaction. delegations: how many grant it.",
    ].join(" "),
  };
};

const DELEGATIONS_AT: SqlFunction = {
  name: "analytics.delegations_at",
  args: ["chain_id bigint", "block bigint"],
  returns: "setof analytics.delegations",
  options: READING,
  body: `
#variable_conflict use_column
begin
  if block is null then
    raise exception using errcode = 'invalid_parameter_value', message = 'block must not be null';
  end if;
  perform analytics.known_block(delegations_at.chain_id, null, block);
  return query select
  ${selectColumns(DELEGATIONS)}
  from (${selectPeriods("chain_id = delegations_at.chain_id and block_number <= block")}
    having bool_and(active)
  ) delegation;
end`,
  comment:
    "The delegations that were active on a chain at a block, with the columns of analytics.delegations. It reads all changes up to that block. Raises an exception if they are not known. chain_id: the chain. block: the block.",
};

/** Greater than any log index. */
const WHOLE_BLOCK = 2 ** 31 - 1;

const CHANGES_AFTER: SqlFunction = {
  name: "analytics.changes_after",
  args: [
    "chain_id bigint",
    "after_block bigint default -1",
    "after_log_index integer default null",
    "after_ordinal integer default null",
    "max_rows bigint default 1000",
  ],
  returns: "setof analytics.changes",
  options: PROBING,
  body: `
#variable_conflict use_column
declare
  asked_chain constant bigint := chain_id;
  final_block bigint;
begin
  if after_block is null or max_rows is null or max_rows < 1 then
    raise exception using errcode = 'invalid_parameter_value', message = 'after_block must not be null, and max_rows must be at least 1';
  end if;
  if (after_log_index is null) <> (after_ordinal is null) then
    raise exception using errcode = 'invalid_parameter_value', message = 'after_log_index and after_ordinal belong together: give both, or none for the end of the block';
  end if;
  perform analytics.known_block(asked_chain);
  select chain.final_block into final_block from analytics.chains chain where chain.chain_id = asked_chain;
  if after_block > final_block then
    ${raise("Chain %s is final up to block %s, so there is no reader who is at block %s", "asked_chain, final_block, after_block", "object_not_in_prerequisite_state")};
  end if;
  return query select * from analytics.changes
    where chain_id = asked_chain
      and (block_number, log_index, ordinal)
        > (after_block, coalesce(after_log_index, ${WHOLE_BLOCK}), coalesce(after_ordinal, ${WHOLE_BLOCK}))
      and block_number <= final_block
    order by block_number, log_index, ordinal
    limit max_rows;
end`,
  comment:
    "The final changes of a chain after a position, in the order of the chain, with the columns of analytics.changes: each once, and never undone. Go on after block_number, log_index and ordinal of the last row. Raises an exception if they are not known, or the position is not final. chain_id: the chain. after_block: the block of the position; by default, before all. after_log_index: the log index of the last change that was read of that block; by default the whole block was. after_ordinal: its ordinal. max_rows: the most rows to return.",
};

/** Selects the columns that a digest hashes from a view of active delegations. */
const DIGEST_COLUMNS = {
  v1: `chain_id, 'v1' as registry, type, vault, delegate, contract, token_id, '${FULL_RIGHTS}' as rights, 0 as amount`,
  v2: "chain_id, 'v2' as registry, type, vault, delegate, contract, token_id, rights, amount",
};

const STATE_DIGEST: SqlFunction = {
  name: "analytics.state_digest",
  args: ["chain_id bigint", "registry text", "at_block bigint default null"],
  returns: "text",
  options: READING,
  body: `
#variable_conflict use_column
declare
  sums numeric[];
  total numeric := 0;
  digest text := '';
begin
  if state_digest.registry is null or state_digest.registry not in ('v1', 'v2') then
    ${raise("registry must be v1 or v2, not %L", "state_digest.registry", "invalid_parameter_value")};
  end if;
  perform analytics.known_block(state_digest.chain_id, state_digest.registry, at_block);
${(["v1", "v2"] as const)
  .map(
    (version) => `
  if state_digest.registry = '${version}' and at_block is null then
    select summed.sums into sums from (${sumDigests(
      `select ${DIGEST_COLUMNS[version]} from ${activeDelegations(version)} where chain_id = state_digest.chain_id`,
    )}) summed;
  elsif state_digest.registry = '${version}' then
    select summed.sums into sums from (${sumDigests(
      `select * from ${selectDelegationsAt(version, "at_block")} active where chain_id = state_digest.chain_id`,
    )}) summed;
  end if;`,
  )
  .join("")}
  for word in reverse ${DIGEST_WORDS}..1 loop
    total := total + coalesce(sums[word], 0);
    digest := lpad(to_hex(mod(total, 4294967296)::bigint), 8, '0') || digest;
    total := div(total, 4294967296);
  end loop;
  return '0x' || digest;
end`,
  comment:
    "A hash over the active delegations of a registry on a chain: equal for equal delegations, in any database. docs/digest.md defines it. Raises an exception if the delegations are not known. chain_id: the chain. registry: v1 or v2. at_block: a past block, by default the newest indexed one.",
};

export const FUNCTIONS: readonly SqlFunction[] = [
  ...PARSING,
  KNOWN_BLOCK,
  ...CHECKS.map(defineCheck),
  defineWalletsOf("delegate"),
  defineWalletsOf("vault"),
  DELEGATIONS_AT,
  CHANGES_AFTER,
  STATE_DIGEST,
];
