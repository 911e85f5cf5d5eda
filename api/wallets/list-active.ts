import { type SQL, sql } from "drizzle-orm";
import type { Address } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";
import type { Database } from "../database/database.ts";
import { hasIndexedBlock } from "../database/freshness.ts";
import { memoizeByDatabase } from "../database/memoize.ts";
import type { Moment } from "../delegations/check-delegation.ts";
import { type Direction, selectDirection } from "../delegations/list-directions.ts";
import { INCOMING, OUTGOING } from "../delegations/list-rows.ts";
import type { AskSchema } from "./ask-networks.ts";
import { networksStatement, readNetworks } from "./network-statement.ts";
import type { DelegationRow } from "./wallet-json.ts";

export type ActiveQuestion = {
  wallet: Address;
  versions: readonly RegistryVersion[];
  directions: readonly Direction[];
  timestamp?: string | undefined;
};

/** A position in the list: by chain, incoming first, the oldest. */
export type ActivePosition = { chainId: number; direction: number; blockNumber: string; logIndex: number };

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
    { after, rows }: { after: ActivePosition | undefined; rows: number },
  ): AskSchema<ActiveRow> =>
  (schema, networks) => {
    const moment = timestamp !== undefined || networks[0]?.block !== undefined ? "past" : "now";
    const statement = findStatement(database, schema, versions.join(), directions.join(), moment);
    const starts = networks.map(({ chainId }) => findStart(chainId, after));
    return readNetworks(database, statement, networks, {
      wallet,
      rows,
      timestamp,
      in_block: starts.map(({ incoming }) => incoming.blockNumber),
      in_log: starts.map(({ incoming }) => incoming.logIndex),
      out_block: starts.map(({ outgoing }) => outgoing.blockNumber),
      out_log: starts.map(({ outgoing }) => outgoing.logIndex),
    });
  };

/** Before the first event, and after the last. */
const START = { blockNumber: "-1", logIndex: -1 };
const END = { blockNumber: "9223372036854775807", logIndex: 0 };

/** Where each direction of a chain's part of a page starts: chains are in the order of their ids. */
const findStart = (chainId: number, after: ActivePosition | undefined) => {
  if (!after || chainId > after.chainId) return { incoming: START, outgoing: START };
  if (chainId < after.chainId) return { incoming: END, outgoing: END };
  return after.direction === OUTGOING ? { incoming: END, outgoing: after } : { incoming: after, outgoing: START };
};
