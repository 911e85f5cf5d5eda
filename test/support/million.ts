import pg from "pg";
import { createSampleDatabase } from "./api.ts";

/** An address of our own making, in SQL: one for each number of each kind. */
const address = (kind: string, number: string) => `'0x' || lpad(md5('${kind}' || (${number})), 40, '0')`;
const ZERO_ADDRESS = `0x${"0".repeat(40)}`;
const ZERO_HASH = `0x${"0".repeat(64)}`;

const wallet = async (client: pg.Client, kind: string, number: number): Promise<string> =>
  (await client.query(`select ${address(kind, String(number))} as address`)).rows[0].address;

/** Adds rows to an index as its indexer would have left them, without the triggers that note how to undo them. */
const insert = async (client: pg.Client, version: "v1" | "v2", rows: string) => {
  const columns = `chain_id, vault, delegate, type, contract, token_id, ${version === "v2" ? "rights, amount," : ""} block_number, log_index, block_timestamp, transaction_hash`;
  const { rows: shards } = await client.query("select schema from indexer.shard");
  await client.query("set session_replication_role = replica; set synchronous_commit = off");
  await client.query(`insert into ${shards[0].schema}.delegation_${version} (${columns}) ${rows}`);
};

/** Has so many wallets delegate a token each to one wallet. */
const insertFans = (client: pg.Client, version: "v1" | "v2", popular: string, fans: number) =>
  insert(
    client,
    version,
    `select 1, ${address("fan", "i")}, '${popular}', '${version === "v1" ? "TOKEN" : "ERC721"}', ${address("contract", "0")}, i,
       ${version === "v2" ? `'${ZERO_HASH}', 0,` : ""} ${EVENT}
     from generate_series(1, ${fans}) i`,
  );

/** The samples, and a wallet that so many others delegated to in v2. */
export const createPopularDatabase = async (fans: number) => {
  const databaseUrl = await createSampleDatabase();
  const client = new pg.Client(databaseUrl);
  await client.connect();
  const popular = await wallet(client, "popular", 0);
  await insertFans(client, "v2", popular, fans);
  return { databaseUrl, client, popular };
};

const EVENT = `i + 1000, i % 100, 1700000000 + i, '0x' || repeat(md5(i::text), 2)`;

/**
 * The samples, and a million delegations in each registry: most between wallets with few, one pair of
 * wallets that share ten thousand tokens, and one wallet that two hundred thousand others delegated to.
 */
export const createMillionDatabase = async () => {
  const databaseUrl = await createSampleDatabase();
  const client = new pg.Client(databaseUrl);
  await client.connect();
  const few = { vault: await wallet(client, "vault", 7), delegate: await wallet(client, "delegate", 7) };
  const many = { vault: await wallet(client, "collector", 0), delegate: await wallet(client, "friend", 0) };
  const popular = await wallet(client, "popular", 0);
  const contract = await wallet(client, "contract", 0);
  for (const version of ["v1", "v2"] as const) {
    const types = version === "v1" ? "'ALL','CONTRACT','TOKEN'" : "'ALL','CONTRACT','ERC721','ERC20','ERC1155'";
    const token = version === "v1" ? "TOKEN" : "ERC721";
    const rights = version === "v2" ? `'${ZERO_HASH}', case when type in ('ERC20', 'ERC1155') then i else 0 end,` : "";
    const ofType = (type: string) => (version === "v2" ? rights.replaceAll("type", `'${type}'`) : "");
    await insert(
      client,
      version,
      `select 1, ${address("vault", "i / 3")}, ${address("delegate", "i / 2")}, type,
         case when type = 'ALL' then '${ZERO_ADDRESS}' else ${address("contract", "i % 5000")} end,
         case when type in ('TOKEN', 'ERC721', 'ERC1155') then i else 0 end, ${rights} ${EVENT}
       from generate_series(1, 790000) i, lateral (select (array[${types}])[1 + i % ${version === "v1" ? 3 : 5}] as type) t`,
    );
    await insert(
      client,
      version,
      `select 1, '${many.vault}', '${many.delegate}', '${token}', ${address("contract", "0")}, i, ${ofType(token)} ${EVENT}
       from generate_series(1, 10000) i`,
    );
    await insertFans(client, version, popular, 200_000);
  }
  // One delegation of the very kind that the others have ten thousand of.
  await insert(
    client,
    "v2",
    `select 1, '${few.vault}', '${few.delegate}', 'ERC721', '${contract}', i, '${ZERO_HASH}', 0, ${EVENT} from generate_series(5000, 5000) i`,
  );
  return { databaseUrl, client, few, many, popular, contract };
};
