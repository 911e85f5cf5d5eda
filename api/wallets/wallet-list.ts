import type { Address } from "viem";
import type { CheckName } from "../../registry/checks.ts";
import type { ApiContext } from "../context.ts";
import { badParameters } from "../contract/define-parameters.ts";
import {
  encodeCursor,
  linkToNextPage,
  nameWalletList,
  type Position,
  takePage,
  WRONG_CURSOR,
} from "../contract/paging.ts";
import type { Database } from "../database/database.ts";
import { checksumAddress } from "../delegations/checksum-address.ts";
import type { Dependencies } from "../delegations/dependencies.ts";
import { respond } from "../respond.ts";
import { renderInSlices } from "../slices.ts";
import { askNetworks, type NetworksAnswer, type Plan } from "./ask-networks.ts";
import type { NetworkValues } from "./wallet-parameters.ts";

export type ListValues = NetworkValues & { list: string; wallet: Address; check?: CheckName | undefined };

/** A row of a list over several networks. */
export type Listed = {
  chainId: number;
  /** By which the list is ordered. */
  position: Position;
  /** Its number among the rows that its statement has read. */
  number: string;
  /** False for a row that only tells how far its statement has read. */
  isListed: boolean;
  /** True if its statement has not read beyond it. */
  isLastRead?: boolean;
};

/** A question about a wallet that a list answers. */
export type WalletList<Values extends ListValues, Row, Item extends Listed> = {
  /** In which direction it is ordered by each number of a position. */
  order: readonly ("ascending" | "descending")[];
  plan: (values: Values, database: Database) => Plan<Row>;
  /** Turns the rows of all networks into those of the list, in any order. */
  collect: (rows: (Row & { chainId: number })[]) => readonly Item[];
  show: (item: Item, values: Values) => object;
};

/** True for a question about a past moment. */
export const isPast = ({ block, timestamp }: NetworkValues): boolean => (block ?? timestamp) !== undefined;

/**
 * How many rows a statement reads for a page if not all of them are listed, such as changes of delegations that were
 * revoked by then: strangers can add any number. A page may then be short or empty, with a next page.
 */
export const countRowsToRead = (limit: number) => Math.max(200, 2 * (limit + 1));

/** Names the list of a question, for its cursors. */
const nameList = ({ limit, cursor, partial, minBlock, chains, ...question }: ListValues): string =>
  nameWalletList(question);

/** Answers with a page of a list, and the cursor of the next one. @param name - of the rows in the response */
export const answerList = async <Values extends ListValues, Row, Item extends Listed>(
  c: ApiContext,
  { database, shards }: Pick<Dependencies, "database" | "shards">,
  { order, plan, collect, show }: WalletList<Values, Row, Item>,
  values: Values,
  name: string = values.list,
): Promise<Response> => {
  const { wallet, check, limit, cursor } = values;
  const list = nameList(values);
  if (cursor && cursor.list !== list) throw badParameters([WRONG_CURSOR]);

  const planned = plan(values, database);
  const { rows, blocks, unanswered, headers } = await askNetworks(database, shards, values, planned);
  const items = collect(rows).map((item) =>
    Object.assign(item, {
      isListed: item.isListed && item.chainId in blocks,
      isLastRead: item.isLastRead || Number(item.number) === planned.values.rows,
    }),
  );
  const { page, end } = takePage(items.toSorted(comparePositions(order)), limit);

  const next = end && encodeCursor({ list, position: end.position, ...keepNetworks(values, blocks, unanswered) });
  const before = JSON.stringify({ wallet: checksumAddress(wallet), check }).slice(0, -1);
  const shown = await renderInSlices(page, (item) => JSON.stringify(show(item, values)));
  const after = JSON.stringify({ blocks, unanswered, next }).slice(1);
  return respond(c, 200, `${before},"${name}":[${shown}],${after}`, {
    "Content-Type": "application/json",
    ...headers,
    ...(next && linkToNextPage(c.req.url, next)),
  });
};

const comparePositions =
  (order: WalletList<ListValues, unknown, Listed>["order"]) =>
  (a: Listed, b: Listed): number => {
    const place = order.findIndex((_, index) => Number(a.position[index]) !== Number(b.position[index]));
    // A row that is not listed may end the page, so it comes after those at its position.
    if (place === -1) return Number(b.isListed) - Number(a.isListed);
    const difference = Number(a.position[place]) - Number(b.position[place]);
    return order[place] === "descending" ? -difference : difference;
  };

/** What the next pages have to know: the blocks that "finalized" means, and the networks that are missing. */
const keepNetworks = (
  { block }: NetworkValues,
  blocks: NetworksAnswer<unknown>["blocks"],
  unanswered: NetworksAnswer<unknown>["unanswered"],
) => ({
  blocks:
    block === "finalized" ? Object.entries(blocks).map(([chainId, { number }]) => [chainId, `${number}`] as const) : [],
  missing: unanswered.map(({ chainId }) => chainId),
});
