import type pg from "pg";
import { expect } from "vitest";
import type { operations } from "../../client/src/openapi.ts";
import { type Api, HOT, NFT, VAULT } from "./api.ts";

// Asks the operations below /wallets/{wallet}.

type Body<Name extends keyof operations> = operations[Name] extends {
  responses: { 200: { content: { "application/json": infer Json } } };
}
  ? Json
  : never;

export type Vaults = Body<"walletVaults">;
export type Delegates = Body<"walletDelegates">;
export type Delegations = Body<"walletDelegations">;
export type History = Body<"walletHistory">;
type Page = Pick<History, "blocks" | "unanswered" | "next">;

export const LISTS = ["vaults", "delegates", "delegations", "history"] as const;

/** @param path - below /wallets */
export const askWallet = async <Content extends Page>(api: Api, path: string): Promise<Content> => {
  const response = await api.get(`/wallets/${path}`);
  const body = await response.text();
  expect(response.status, body).toBe(200);
  const page = JSON.parse(body) as Content;
  const link = response.headers.get("Link");
  expect(link?.includes(`cursor=${page.next}`) ?? false, `${path} links to its next page`).toBe(page.next !== null);
  return page;
};

/** Returns the status, the reason and the bad parameters. */
export const askWalletProblem = async (api: Api, path: string) => {
  const response = await api.get(`/wallets/${path}`);
  const { detail, errors } = (await response.json()) as { detail: string; errors?: { parameter: string }[] };
  return { status: response.status, detail, errors: errors?.map(({ parameter }) => parameter) };
};

/** Reads all pages of a list, by their cursors. @param path - with a query */
export const readWalletPages = async <Content extends Page>(api: Api, path: string): Promise<Content[]> => {
  const pages = [await askWallet<Content>(api, path)];
  for (let next = pages[0]?.next; next; next = pages.at(-1)?.next) {
    pages.push(await askWallet<Content>(api, `${path}&cursor=${next}`));
  }
  return pages;
};

/** Sets the newest final block of all chains. */
export const setFinalBlock = (database: pg.Client, schema: string, block: number) =>
  database.query(
    `update ${schema}._ponder_checkpoint
     set finalized_checkpoint = overlay(finalized_checkpoint placing lpad($1::text, 16, '0') from 27 for 16)`,
    [block],
  );

type CursorParts = { position?: string; blocks?: string; missing?: string };

/** Replaces parts of a cursor's text: the name of its list, a position, blocks by chain, and missing chains. */
export const forgeCursor = (cursor: string | null, parts: CursorParts): string => {
  const [list, position, blocks, missing] = Buffer.from(cursor ?? "", "base64url")
    .toString()
    .split("~");
  const forged = { position, blocks, missing, ...parts };
  return Buffer.from([list, forged.position, forged.blocks, forged.missing].join("~")).toString("base64url");
};

/** The position at the start of a list. */
export const startOf = (list: string, chainId: number) =>
  list === "history" ? `1600000000.${chainId}.0.0.0` : `${chainId}.0.0.0`;

/** Asks for a second page with a forged cursor. */
export const askForged = async (api: Api, list: string, query: string, parts: CursorParts) => {
  const path = `${list === "vaults" ? HOT : VAULT}/${list}?limit=1&partial=true&contract=${NFT}&tokenId=8520&${query}`;
  const { next } = await askWallet(api, path);
  if (next === null) return expect.fail(`${path} has no second page.`);
  return askWalletProblem(api, `${path}&cursor=${forgeCursor(next, { position: startOf(list, 1), ...parts })}`);
};
