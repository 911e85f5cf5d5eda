import pg from "pg";
import { createSampleDatabase } from "./api.ts";
import { readServedSchema } from "./index-copy.ts";

/** SQL expression for a generated address, unique for each kind and number. */
const address = (kind: string, number: string) => `'0x' || lpad(md5('${kind}' || (${number})), 40, '0')`;
const ZERO_ADDRESS = `0x${"0".repeat(40)}`;
const ZERO_HASH = `0x${"0".repeat(64)}`;
const EVENT = `i + 1000, i % 100, 1700000000 + i, '0x' || repeat(md5(i::text), 2)`;

const wallet = async (client: pg.Client, kind: string, number = 0): Promise<string> =>
  (await client.query(`select ${address(kind, String(number))} as address`)).rows[0].address;

type Version = "v1" | "v2";

/** SQL values of the columns that only v2 has: full rights, and an amount where the type has one. */
const rights = (version: Version) =>
  version === "v2" ? `'${ZERO_HASH}', case when type in ('ERC20', 'ERC1155') then i else 0 end,` : "";

/** Inserts delegations numbered `i`, without Ponder's triggers that record how to revert them. */
const insert = async (client: pg.Client, version: Version, columns: string, from: string) => {
  const own = version === "v2" ? "rights, amount," : "";
  await client.query("set session_replication_role = replica; set synchronous_commit = off");
  await client.query(
    `insert into ${await readServedSchema(client)}.delegation_${version}
       (chain_id, vault, delegate, type, contract, token_id, ${own} block_number, log_index, block_timestamp, transaction_hash)
     select 1, ${columns}, ${rights(version)} ${EVENT} from ${from}`,
  );
};

/** Inserts one delegated token of the same contract for each number. */
const insertTokens = (
  client: pg.Client,
  version: Version,
  { vault, delegate, last, first = 1 }: { vault: string; delegate: string; last: number; first?: number },
) => {
  const type = version === "v1" ? "TOKEN" : "ERC721";
  const columns = `${vault}, '${delegate}', type, ${address("contract", "0")}, i`;
  return insert(client, version, columns, `generate_series(${first}, ${last}) i, (values ('${type}')) t (type)`);
};

/** Inserts delegations of every type between wallets with few delegations each. */
const insertFew = (client: pg.Client, version: Version, count: number) => {
  const types = version === "v1" ? ["ALL", "CONTRACT", "TOKEN"] : ["ALL", "CONTRACT", "ERC721", "ERC20", "ERC1155"];
  const type = `(array['${types.join("','")}'])[1 + i % ${types.length}]`;
  const contract = `case when type = 'ALL' then '${ZERO_ADDRESS}' else ${address("contract", "i % 5000")} end`;
  const tokenId = "case when type in ('TOKEN', 'ERC721', 'ERC1155') then i else 0 end";
  const columns = `${address("vault", "i / 3")}, ${address("delegate", "i / 2")}, type, ${contract}, ${tokenId}`;
  return insert(client, version, columns, `generate_series(1, ${count}) i, lateral (select ${type} as type) t`);
};

const open = async () => {
  const databaseUrl = await createSampleDatabase();
  const client = new pg.Client(databaseUrl);
  await client.connect();
  return { databaseUrl, client, popular: await wallet(client, "popular") };
};

/** Delegations of the popular wallet of a large database, and those that a pair of wallets shares. */
const FANS = 200_000;
const SHARED = 10_000;

/** Creates a database with the samples, and a wallet to which many others delegated a token in v2. */
export const createPopularDatabase = async (fans: number) => {
  const database = await open();
  await insertTokens(database.client, "v2", { vault: address("fan", "i"), delegate: database.popular, last: fans });
  return database;
};

/**
 * Creates a database with the samples, as many delegations in v2 and a tenth of them in v1: most between wallets with
 * few, one pair of wallets that share ten thousand tokens, and in v2 one wallet to which 200,000 others delegated.
 */
export const createLargeDatabase = async (delegations: number) => {
  const { client, ...database } = await open();
  const few = { vault: await wallet(client, "vault", 7), delegate: await wallet(client, "delegate", 7) };
  const many = { vault: await wallet(client, "collector"), delegate: await wallet(client, "friend") };
  // Rebuilding the indexes for lists is faster than maintaining them.
  const schema = await readServedSchema(client);
  const { rows: indexes } = await client.query(
    `select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition from pg_index
     where indrelid = any ('{${schema}.delegation_v1, ${schema}.delegation_v2}'::regclass[]) and not indisprimary`,
  );
  for (const { name } of indexes) await client.query(`drop index ${name}`);
  for (const [version, count] of [
    ["v1", delegations / 10 - SHARED],
    ["v2", delegations - SHARED - FANS],
  ] as const) {
    await insertFew(client, version, count);
    await insertTokens(client, version, { vault: `'${many.vault}'`, delegate: many.delegate, last: SHARED });
  }
  await insertTokens(client, "v2", { vault: address("fan", "i"), delegate: database.popular, last: FANS });
  // One delegation of the same kind as the ten thousand shared ones.
  await insertTokens(client, "v2", { vault: `'${few.vault}'`, delegate: few.delegate, first: 5000, last: 5000 });
  for (const { definition } of indexes) await client.query(definition);
  return { ...database, client, few, many, contract: await wallet(client, "contract") };
};
