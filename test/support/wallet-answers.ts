import { type Address, getAddress, zeroAddress, zeroHash } from "viem";
import { expect } from "vitest";
import { type Answers, formatList, formatQuestion, type Listed, type WorldQuestion } from "./answers.ts";
import type { Queries } from "./index-state.ts";

// Compares the answers about a wallet with the registries' own answers to checks.

export type WalletDelegation = {
  chainId: number;
  registry: "v1" | "v2";
  type: string;
  tokenStandard: string | null;
  vault: Address;
  delegate: Address;
  contract: Address | null;
  tokenId: string | null;
  rights: string;
  amount: string | null;
  blockNumber: number;
  blockTimestamp: number;
  transactionHash: string;
};

export type WalletPage = {
  blocks: Record<string, { number: number | null; timestamp: number | null; final: boolean }>;
  unanswered: { chainId: number | null; problem: { detail: string } }[];
  next: string | null;
};

export type GrantedWallet = {
  chainId: number;
  vault?: Address;
  delegate?: Address;
  amount: string | null;
  delegations: WalletDelegation[];
};

const readWalletDelegation = (shown: WalletDelegation): Listed => ({
  type: shown.tokenStandard ?? shown.type,
  vault: shown.vault,
  delegate: shown.delegate,
  contract: shown.contract ?? zeroAddress,
  tokenId: BigInt(shown.tokenId ?? 0),
  ...(shown.registry === "v2" && { rights: shown.rights as `0x${string}`, amount: BigInt(shown.amount ?? 0) }),
});

/** A network, as /networks shows it. */
export type Network = {
  chainId: number;
  testnet: boolean;
  state: string;
  reason: string | null;
  progress: { startBlock: number; share: number } | null;
};

/** Stops at a cursor that leads back to itself. */
const MOST_PAGES = 1_000;

/** Asks again while the API is too busy to answer. */
const askUntilAnswered = async (url: string) => {
  for (let attempt = 1; ; attempt++) {
    const response = await fetch(url);
    const body = await response.text();
    const isBusy = response.status === 503 && /#problem-(database-unavailable|overloaded)"/.test(body);
    if (isBusy && attempt < ATTEMPTS) continue;
    expect(response.status, `${url}: ${body}`).toBe(200);
    return { body, headers: response.headers };
  }
};

const ATTEMPTS = 10;

/** Reads all pages of a list, by their cursors. */
export const readAllPages = async <Page extends WalletPage>(url: string): Promise<Page[]> => {
  const pages: Page[] = [];
  for (let next: string | null = ""; next !== null; ) {
    const { body, headers } = await askUntilAnswered(next ? `${url}&cursor=${next}` : url);
    const page = JSON.parse(body) as Page;
    expect(headers.get("Link")?.includes(`cursor=${page.next}`) ?? false, url).toBe(page.next !== null);
    pages.push(page);
    if (pages.length > MOST_PAGES) throw new Error(`${url} has more than ${MOST_PAGES} pages.`);
    next = page.next;
  }
  return pages;
};

const scopeOf = (question: WorldQuestion) => ({
  contract: "contract" in question ? question.contract : zeroAddress,
  tokenId: "tokenId" in question ? question.tokenId : 0n,
  rights: "rights" in question ? question.rights : zeroHash,
});

/** Filters the registry's list of a vault's delegations for the ones that satisfy a check alone. */
const grantsAmong = (question: WorldQuestion, answers: Answers): string => {
  const { registry, check, vault, delegate } = question;
  const { contract, tokenId, rights } = scopeOf(question);
  const satisfies = (line: string) => {
    const [type, , to, of, token, with_] = line.split(" ");
    if (to !== delegate.toLowerCase()) return false;
    if (registry === "v2" && with_ !== zeroHash && with_ !== rights) return false;
    if (type === "all") return true;
    if (check === "all" || of !== contract.toLowerCase()) return false;
    return type === "contract" || (type === check && BigInt(token ?? 0) === tokenId);
  };
  return (answers.get(`${registry} outgoing ${vault}`) ?? "").split("\n").filter(satisfies).join("\n");
};

type Asked = {
  apiUrl: string;
  chainId: number;
  /** The block of the answers. */
  block: bigint;
  /** The past block or time of the question. Absent: the newest block. */
  at?: { block: bigint } | { timestamp: bigint };
};

const buildQuery = (question: WorldQuestion, { chainId, at }: Asked): string => {
  const { vault: _, delegate: __, ...scope } = question;
  const query = new URLSearchParams({ chainId: String(chainId) });
  for (const [name, value] of Object.entries({ ...scope, ...at })) query.set(name, String(value));
  return String(query);
};

/** Expects all pages to name the block, or with a time one at or before it that changed a delegation. */
const expectBlock = (pages: readonly WalletPage[], { chainId, block, at }: Asked): void => {
  for (const { blocks } of pages) {
    const number = blocks[chainId]?.number ?? 0;
    if (at && "timestamp" in at) expect(number).toBeLessThanOrEqual(Number(block));
    else expect(number).toBe(Number(block));
  }
};

type List = "vaults" | "delegates";

/** The questions that one list answers. */
type Group = { list: List; wallet: Address; group: WorldQuestion[] };

const AT_ONCE = 8;
/** Every seventh list is compared in SQL too. */
const IN_SQL = 7;

/** Describes a row as analytics.vaults_of() and delegates_of() do. */
const describeRow = ({ chainId, vault, delegate, amount, delegations }: GrantedWallet) => {
  const [first] = delegations;
  return {
    chain_id: String(chainId),
    wallet: (vault ?? delegate)?.toLowerCase(),
    amount,
    registries: [...new Set(delegations.map(({ registry }) => registry))].sort(),
    type: first?.type,
    token_standard: first?.tokenStandard,
    since_block: String(first?.blockNumber),
    since: new Date(Number(first?.blockTimestamp) * 1000),
    transaction_hash: first?.transactionHash,
    delegations: String(delegations.length),
  };
};

const readRowsInSql = async (database: Queries, list: List, wallet: Address, question: WorldQuestion, asked: Asked) => {
  const { chainId, at } = asked;
  const { registry, check, vault: _, delegate: __, ...scope } = question;
  const values: Record<string, unknown> = {
    wallet,
    '"check"': check,
    registry,
    chain_ids: [chainId],
    ...("contract" in scope && { contract: scope.contract }),
    ...("tokenId" in scope && { token_id: scope.tokenId }),
    ...("rights" in scope && { rights: scope.rights }),
    ...(at && "block" in at && { at_block: at.block }),
    ...(at && "timestamp" in at && { at_time: new Date(Number(at.timestamp) * 1000) }),
  };
  const names = Object.keys(values).map((name, index) => `${name} => $${index + 1}`);
  const { rows } = await database.query(
    `select chain_id, ${list.slice(0, -1)} as wallet, amount, registries, type, token_standard, since_block, since, transaction_hash, delegations
     from analytics.${list}_of(${names.join(", ")})`,
    Object.values(values),
  );
  return rows;
};

/**
 * Asks for the vaults of each delegate and the delegates of each vault, compares each row with the registry's own check,
 * its delegations with the registry's own list, and all rows with those in SQL.
 * @param isComplete - true if the questions are all that there are, so that there is no other row
 * @returns the number of compared lists
 */
export const expectSameGrants = async (
  asked: Asked,
  answers: Answers,
  { questions, isComplete, database }: { questions: readonly WorldQuestion[]; isComplete: boolean; database: Queries },
): Promise<number> => {
  const groups = new Map<string, Group>();
  for (const question of questions) {
    for (const [list, wallet] of [
      ["vaults", question.delegate],
      ["delegates", question.vault],
    ] as const) {
      const path = `/wallets/${wallet}/${list}?${buildQuery(question, asked)}`;
      const { group } = groups.get(path) ?? { group: [] };
      groups.set(path, { list, wallet, group: [...group, question] });
    }
  }
  const compare = async ([path, { list, wallet, group }]: [string, Group], index: number): Promise<void> => {
    const other = list === "vaults" ? "vault" : "delegate";
    // Some in pages of one.
    const url = `${asked.apiUrl}${path}&limit=${index % 3 === 0 ? 1 : 100}`;
    const pages = await readAllPages<WalletPage & Record<List, GrantedWallet[]>>(url);
    expectBlock(pages, asked);
    const rows = pages.flatMap((page) => page[list]);
    const byWallet = new Map(rows.map((row) => [row[other], row]));
    expect(rows.length, `${path} lists each wallet once`).toBe(byWallet.size);
    for (const question of group) {
      const row = byWallet.get(getAddress(question[other]));
      const found = row ? (row.amount ?? "true") : /erc20|erc1155/.test(question.check) ? "0" : "false";
      expect(found, `${path}, ${question[other]}`).toBe(answers.get(formatQuestion(question)));
      if (row) expect(formatList(row.delegations.map(readWalletDelegation)), path).toBe(grantsAmong(question, answers));
    }
    const isGranted = (question: WorldQuestion) => !/^(false|0)$/.test(answers.get(formatQuestion(question)) ?? "");
    if (isComplete) expect(rows.length, path).toBe(group.filter(isGranted).length);
    const [question] = group;
    // A statement of its own takes longer: some of them.
    if (question && index % IN_SQL === 0) {
      expect(await readRowsInSql(database, list, wallet, question, asked), path).toEqual(rows.map(describeRow));
    }
  };
  const remaining = [...groups].map((group, index) => [group, index] as const);
  while (remaining.length > 0) {
    await Promise.all(remaining.splice(0, AT_ONCE).map(([group, index]) => compare(group, index)));
  }
  return groups.size;
};

export type WalletChange = WalletDelegation & {
  kind: "made" | "changed" | "revoked";
  direction: "incoming" | "outgoing";
  event: string;
  logIndex: number;
  ordinal: number;
};

const keyOf = (delegation: WalletDelegation) => {
  const { registry, type, tokenStandard, vault, delegate, contract, tokenId, rights } = delegation;
  return [registry, type, tokenStandard, vault, delegate, contract, tokenId, rights].join();
};

/** Folds changes into active delegations, and expects each change to fit the ones before it. */
const fold = (changes: readonly WalletChange[]): Map<string, { made: WalletChange; newest: WalletChange }> => {
  const active: ReturnType<typeof fold> = new Map();
  for (const change of changes) {
    const key = keyOf(change);
    const before = active.get(key);
    expect(before === undefined, `${change.kind} in block ${change.blockNumber}`).toBe(change.kind === "made");
    if (change.kind === "changed") expect(change.amount).not.toBe(before?.newest.amount);
    if (change.kind === "revoked") active.delete(key);
    else active.set(key, { made: before?.made ?? change, newest: change });
  }
  return active;
};

/** Formats a wallet's lists of both registries, with their names in `Answers`. */
const formatLists = (delegations: readonly WalletDelegation[], wallet: Address): Answers => {
  const answers: Answers = new Map();
  for (const version of ["v1", "v2"] as const) {
    const ofVersion = delegations.filter(({ registry }) => registry === version);
    const list = (end: "vault" | "delegate") =>
      formatList(ofVersion.filter((shown) => shown[end] === getAddress(wallet)).map(readWalletDelegation));
    answers.set(`${version} incoming ${wallet}`, list("delegate"));
    answers.set(`${version} outgoing ${wallet}`, list("vault"));
  }
  return answers;
};

/** Reads a wallet's lists and its history at a block, and expects them to agree. */
export const readWalletLists = async (asked: Asked, wallet: Address): Promise<Answers> => {
  const { apiUrl, chainId, at } = asked;
  const read = <Content>(list: string, limit: number) => {
    const query = new URLSearchParams({ chainId: String(chainId), limit: String(limit) });
    for (const [name, value] of Object.entries(at ?? {})) query.set(name, String(value));
    return readAllPages<WalletPage & Content>(`${apiUrl}/wallets/${wallet}/${list}?${query}`);
  };
  const pages = await read<{ delegations: WalletDelegation[] }>("delegations", 3);
  const history = await read<{ changes: WalletChange[] }>("history", 7);
  expectBlock([...pages, ...history], asked);
  const listed = pages.flatMap(({ delegations }) => delegations);
  const changes = history.flatMap((page) => page.changes).toReversed();
  const places = changes.map(({ blockNumber, logIndex, ordinal }) => `${blockNumber} ${logIndex} ${ordinal}`);
  expect(new Set(places).size).toBe(changes.length);

  // A delegation is active since the change that made it, with the amount of the newest one.
  const folded = [...fold(changes).values()].map(({ made, newest }) => {
    const { blockNumber, blockTimestamp, transactionHash } = made;
    return [keyOf(newest), { blockNumber, blockTimestamp, transactionHash, amount: newest.amount }];
  });
  const shown = listed.map((delegation) => {
    const { blockNumber, blockTimestamp, transactionHash, amount } = delegation;
    return [keyOf(delegation), { blockNumber, blockTimestamp, transactionHash, amount }];
  });
  expect(Object.fromEntries(shown)).toEqual(Object.fromEntries(folded));
  expect(shown.length).toBe(folded.length);
  return formatLists(listed, wallet);
};
