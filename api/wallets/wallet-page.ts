import type { ApiContext } from "../context.ts";
import { encodeCursor, linkToNextPage, takePage } from "../contract/paging.ts";
import { respond } from "../respond.ts";
import { renderInSlices } from "../slices.ts";
import type { NetworksAnswer } from "./ask-networks.ts";
import type { NetworkValues } from "./wallet-parameters.ts";

/** A row of a list over several networks. */
export type Listable = {
  chainId: number;
  /** The numbers by which the list is ordered, as digits. */
  position: readonly (string | number)[];
  /** False for a row that only tells how far its statement has read. */
  isListed: boolean;
  /** True if its statement has not read beyond it. */
  isLastRead: boolean;
};

/** The direction in which a list is ordered by each number of a position. */
export type Order = readonly ("ascending" | "descending")[];

/**
 * How many rows a statement reads for a page if not all of them are listed, such as changes of delegations that were
 * revoked by then: strangers can add any number. A page may then be short or empty, with a next page.
 */
export const countRowsToRead = (limit: number) => Math.max(200, 2 * (limit + 1));

/** Takes a page from the rows of all networks. */
export const cutPage = <Row extends Listable>(rows: readonly Row[], limit: number, order: Order) => {
  const compare = (a: Row, b: Row) => {
    const place = order.findIndex((_, index) => Number(a.position[index]) !== Number(b.position[index]));
    // A row that is not listed may end the page, so it comes after those at its position.
    if (place === -1) return Number(b.isListed) - Number(a.isListed);
    const difference = Number(a.position[place] ?? 0) - Number(b.position[place] ?? 0);
    return order[place] === "descending" ? -difference : difference;
  };
  return takePage(rows.toSorted(compare), limit);
};

type Page<Row> = {
  /** The name of its list. */
  list: string;
  /** What the rows are of. */
  content: object;
  /** The name of the rows in the response. */
  name: string;
  rows: readonly Row[];
  show: (row: Row) => object;
  end: Listable["position"] | null;
  answer: NetworksAnswer<unknown>;
};

/** Responds with a page, and the cursor of the next one. */
export const respondPage = async <Row>(
  c: ApiContext,
  values: NetworkValues,
  { list, content, name, rows, show, end, answer: { blocks, unanswered, headers } }: Page<Row>,
): Promise<Response> => {
  const next = end && encodeCursor({ list, position: end.map(String), ...keepNetworks(values, blocks, unanswered) });
  const before = JSON.stringify(content).slice(0, -1);
  const shown = await renderInSlices(rows, (row) => JSON.stringify(show(row)));
  const after = JSON.stringify({ blocks, unanswered, next }).slice(1);
  return respond(c, 200, `${before},"${name}":[${shown}],${after}`, {
    "Content-Type": "application/json",
    ...headers,
    ...(next && linkToNextPage(c.req.url, next)),
  });
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
