import { type SQL, sql } from "drizzle-orm";
import type { Address } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";
import { findStart } from "../contract/paging.ts";
import type { Database } from "../database/database.ts";
import { hasIndexedBlock } from "../database/freshness.ts";
import { memoizeByDatabase } from "../database/memoize.ts";
import type { Moment } from "../delegations/check-delegation.ts";
import { type Direction, INCOMING, OUTGOING, selectDirection } from "../delegations/list-directions.ts";
import type { Plan } from "./ask-networks.ts";
import { networksStatement } from "./network-statement.ts";
import { type DelegationRow, showDelegation } from "./wallet-json.ts";
import { countRowsToRead, isPast, type ListValues, type WalletList } from "./wallet-list.ts";
import { versionsOf } from "./wallet-parameters.ts";

export type ActiveValues = ListValues & { direction: "incoming" | "outgoing" | "both" };

type ActiveRow = Omit<DelegationRow, "vault" | "delegate"> & {
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

const DIRECTIONS = { incoming: [INCOMING], outgoing: [OUTGOING], both: [INCOMING, OUTGOING] };

const planActive = (values: ActiveValues, database: Database): Plan<ActiveRow> => {
  const { wallet, registry, direction, limit, cursor } = values;
  const [versions, directions] = [versionsOf(registry).join(), DIRECTIONS[direction].join()];
  // At a past block, changes of delegations that were revoked by then are read too.
  const rows = isPast(values) ? countRowsToRead(limit) : limit + 1;
  return {
    findStatement: (schema, moment) => findStatement(database, schema, versions, directions, moment),
    values: { wallet, rows },
    startOf: (chainId) => {
      const [in_block, in_log] = findStart([chainId, INCOMING], cursor?.position);
      const [out_block, out_log] = findStart([chainId, OUTGOING], cursor?.position);
      return { in_block, in_log, out_block, out_log };
    },
  };
};

const addPosition = (row: ActiveRow) =>
  Object.assign(row, { position: [row.chainId, row.direction, row.blockNumber, row.logIndex].map(String) });

const showActive = (row: ActiveRow, { wallet }: ActiveValues) => {
  const isIncoming = row.direction === INCOMING;
  const [vault, delegate] = isIncoming ? [row.other, wallet] : [wallet, row.other];
  return { direction: isIncoming ? "incoming" : "outgoing", ...showDelegation({ ...row, vault, delegate }) };
};

/** The delegations of a wallet: by chain, direction, block and log index. */
export const activeDelegations: WalletList<ActiveValues, ActiveRow, ReturnType<typeof addPosition>> = {
  order: ["ascending", "ascending", "ascending", "ascending"],
  plan: planActive,
  collect: (rows) => rows.map(addPosition),
  show: showActive,
};
