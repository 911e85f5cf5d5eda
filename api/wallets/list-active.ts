import { type SQL, sql } from "drizzle-orm";
import type { Address } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";
import { findStart, type Position } from "../contract/paging.ts";
import type { Database } from "../database/database.ts";
import { hasIndexedBlock } from "../database/freshness.ts";
import { memoizeByDatabase } from "../database/memoize.ts";
import type { Moment } from "../delegations/check-delegation.ts";
import { type Direction, INCOMING, OUTGOING, selectDirection } from "../delegations/list-directions.ts";
import type { AskSchema } from "./ask-networks.ts";
import { networksStatement, readNetworks } from "./network-statement.ts";
import type { DelegationRow } from "./wallet-json.ts";

export type ActiveQuestion = {
  wallet: Address;
  versions: readonly RegistryVersion[];
  directions: readonly Direction[];
  timestamp?: string | undefined;
};

export type ActiveRow = Omit<DelegationRow, "vault" | "delegate"> & {
  direction: number;
  other: Address;
  number: string;
  isListed: boolean;
  isLastRead: boolean;
};

const COLUMNS = [
  "registry",
  "direction",
  "blockNumber",
  "logIndex",
  "type",
  "other",
  "contract",
  "tokenId",
  "rights",
  "amount",
  "blockTimestamp",
  "transactionHash",
  "isListed",
  "isLastRead",
  "number",
];

const POSITION = { in_block: "bigint", in_log: "bigint", out_block: "bigint", out_log: "bigint" };

export const activeStatement = (
  database: Database,
  schema: string,
  versions: string,
  directions: string,
  moment: Moment,
) => {
  const isPast = moment === "past";
  const select = (version: RegistryVersion, direction: Direction): SQL => {
    const kind = { schema, version, hasDetails: true, moment };
    const end = direction === INCOMING ? "in" : "out";
    const query = selectDirection(database, kind, direction, {
      chainId: sql`q.chain_id`,
      wallet: sql`q.wallet`,
      block: sql`q.block`,
      after: sql.raw(`q.${end}_block, q.${end}_log`),
      limit: sql.placeholder("rows"),
      canRead: sql`true`,
    });
    const flags = isPast ? "" : `, true as "isListed", false as "isLastRead"`;
    return sql`select ${sql.raw(`'${version}'`)} as registry, listed.*${sql.raw(flags)} from (${query}) listed`;
  };
  const parts = (versions.split(",") as RegistryVersion[]).flatMap((version) =>
    directions.split(",").map((direction) => select(version, Number(direction) as Direction)),
  );
  // The networks together have a page: at most its rows are returned, however many networks have as many.
  const from = sql`(
      select q.chain_id, q.rows, found.*,
        row_number() over (
          order by q.chain_id, found.direction, found."blockNumber", found."logIndex", found."isListed" desc
        ) as number
      from network q
      cross join lateral (
        select * from (${sql.join(parts, sql` union all `)}) listed where ${sql.raw(hasIndexedBlock(schema))}
      ) found
    ) q
    where q.number <= q.rows`;
  return networksStatement<ActiveRow>(`delegations, ${versions}, ${directions}, ${moment}`, {
    schema,
    moment: moment as Moment,
    values: { wallet: "text", rows: "bigint" },
    networkValues: POSITION,
    from,
    columns: Object.fromEntries(COLUMNS.map((name) => [name, `q."${name}"`])),
  });
};

const findStatement = memoizeByDatabase(activeStatement);

/** Creates the reader of active delegations in all networks of a schema. @param rows - how many to read */
export const listActive =
  (
    database: Database,
    { wallet, versions, directions, timestamp }: ActiveQuestion,
    { after, rows }: { after: Position | undefined; rows: number },
  ): AskSchema<ActiveRow> =>
  (schema, networks) => {
    const moment = timestamp !== undefined || networks[0]?.block !== undefined ? "past" : "now";
    const statement = findStatement(database, schema, versions.join(), directions.join(), moment);
    const incoming = networks.map(({ chainId }) => findStart([chainId, INCOMING], after));
    const outgoing = networks.map(({ chainId }) => findStart([chainId, OUTGOING], after));
    return readNetworks(database, statement, networks, {
      wallet,
      rows,
      timestamp,
      in_block: incoming.map(([block]) => block),
      in_log: incoming.map(([, log]) => log),
      out_block: outgoing.map(([block]) => block),
      out_log: outgoing.map(([, log]) => log),
    });
  };
