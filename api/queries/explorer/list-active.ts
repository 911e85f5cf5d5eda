import type { Address } from "viem";
import { FULL_RIGHTS } from "../../../registry/delegation.ts";
import type { RegistryVersion } from "../../../registry/networks.ts";
import type { Database } from "../../database.ts";
import { COLUMNS, type ExplorerRow, type Found, type Place, readFound, whileServed, withBlock } from "./rows.ts";

export type Direction = "in" | "out";

/** What both registries are read with: v1 knows full rights only, and no amounts. */
export const SOURCES = {
  v1: (schema: string) =>
    `(select *, 'v1' as registry, '${FULL_RIGHTS}'::text as rights, 0::numeric as amount from "${schema}".delegation_v1)`,
  v2: (schema: string) => `(select *, 'v2' as registry from "${schema}".delegation_v2)`,
} as const;

/** A page of a registry: a walk along an index for lists, from the place on, however many there are. */
const page = (schema: string, version: RegistryVersion, direction: Direction): string => `
  (select ${COLUMNS} from ${SOURCES[version](schema)} delegation
   where chain_id = $1 and block_number >= 0
     and ${direction === "in" ? "delegate = $2" : "vault = $2 and vault <> delegate"}
     and (block_number, log_index) < ($3::bigint, $4::int)
   order by block_number desc, log_index desc
   limit $5::int)`;

const ORDER = "block_number desc, log_index desc";

export const activeStatement = (schema: string, direction: Direction): string =>
  withBlock(schema, {
    question: "(values ($1::bigint)) as q (chain_id)",
    rows: `
      select * from (${page(schema, "v1", direction)} union all ${page(schema, "v2", direction)}) delegation
      where ${whileServed(schema)}
      order by ${ORDER}
      limit $5::int`,
    others: [],
    order: ORDER,
  });

/** A wallet's active delegations of both registries in one direction, those made last first. */
export const listActive = async (
  database: Database,
  question: { schema: string; chainId: number; wallet: Address; direction: Direction },
  limit: number,
  after: Place,
): Promise<Found<ExplorerRow>> => {
  const { schema, chainId, wallet, direction } = question;
  const rows = await database.queryList({
    name: `${schema} explorer ${direction}`,
    text: activeStatement(schema, direction),
    values: [chainId, wallet, after.blockNumber, after.logIndex, limit],
  });
  return readFound(rows, (_, delegation) => delegation);
};
