import type { Address, Hex } from "viem";

// JSON of the explorer's API: docs/explorer-api.md.

type Place = { blockNumber: number; blockTimestamp: number; transactionHash: string };

export type ExplorerDelegation = {
  registry: "v1" | "v2";
  type: string;
  tokenStandard: string | null;
  from: Address;
  to: Address;
  contract: Address | null;
  tokenId: string | null;
  rights: Hex | null;
  rightsText: string | null;
  amount: string | null;
};

type Page = { block: { number: number; timestamp: number; finalized: number }; next: string | null };

export type ListPageJson = Page & { delegations: (ExplorerDelegation & { since: Place })[] };

export type ExplorerChangeJson = ExplorerDelegation &
  Place & { id: string; kind: "made" | "changed" | "revoked"; direction: "in" | "out"; event: string };

export type HistoryPageJson = Page & { changes: ExplorerChangeJson[] };

export type Explained = Omit<Page, "next"> & {
  answer: boolean | string;
  grants: (ExplorerDelegation & { since: Place; gives: string | null })[];
};

export type ExplorerNetwork = {
  chainId: number;
  testnet: boolean;
  state: string;
  reason: string | null;
  progress: { startBlock: number; share: number } | null;
};

/** Stops at a cursor that leads back to itself. */
const MOST_PAGES = 1_000;

/** Reads all pages of a list. */
export const readAllPages = async <Content extends Page>(
  ask: (path: string) => Promise<unknown>,
  path: string,
): Promise<Content[]> => {
  const pages: Content[] = [];
  for (let next: string | null = ""; next !== null; ) {
    const page = (await ask(next ? `${path}&cursor=${next}` : path)) as Content;
    pages.push(page);
    if (pages.length > MOST_PAGES) throw new Error(`${path} has more than ${MOST_PAGES} pages.`);
    next = page.next;
  }
  return pages;
};
