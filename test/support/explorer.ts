import type { Address, Hex } from "viem";

// What the explorer's page is given: docs/explorer-api.md.

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

export type ListPage = Page & { delegations: (ExplorerDelegation & { since: Place })[] };

export type ExplorerChange = ExplorerDelegation &
  Place & { id: string; kind: "made" | "changed" | "revoked"; direction: "in" | "out"; event: string };

export type HistoryPage = Page & { changes: ExplorerChange[] };

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

/** One that leads back to itself would have no end. */
const MOST_PAGES = 1_000;

/** All pages of a list, one after the other. */
export const readAllPages = async <Content extends Page>(
  ask: (path: string) => Promise<unknown>,
  path: string,
): Promise<Content[]> => {
  const pages: Content[] = [];
  for (let next: string | null = ""; next !== null; ) {
    const page = (await ask(next ? `${path}&cursor=${next}` : path)) as Content;
    pages.push(page);
    if (pages.length > MOST_PAGES) throw new Error(`${path} goes on and on.`);
    next = page.next;
  }
  return pages;
};
