import { type Address, getAddress, zeroAddress, zeroHash } from "viem";
import { expect } from "vitest";
import { type Answers, type Listed, listOf, type Question, textOf } from "./answers.ts";
import { checkQuery } from "./api-answers.ts";
import {
  type Explained,
  type ExplorerChange,
  type ExplorerDelegation,
  type HistoryPage,
  type ListPage,
  readAllPages,
} from "./explorer.ts";

// Compares what the explorer shows with the registries' own answers.

const AT_ONCE = 64;
const PAGE = 50;

const readDelegation = (shown: ExplorerDelegation): Listed => ({
  type: shown.tokenStandard ?? shown.type,
  vault: shown.from,
  delegate: shown.to,
  contract: shown.contract ?? zeroAddress,
  tokenId: BigInt(shown.tokenId ?? 0),
  ...(shown.registry === "v2" && { rights: shown.rights ?? zeroHash, amount: BigInt(shown.amount ?? 0) }),
});

const keyOf = ({ registry, type, tokenStandard, from, to, contract, tokenId, rights }: ExplorerDelegation) =>
  [registry, type, tokenStandard, from, to, contract, tokenId, rights].join();

/** What is active after changes in their order, each of which has to follow from those before it. */
const fold = (changes: readonly ExplorerChange[]): Map<string, { made: ExplorerChange; newest: ExplorerChange }> => {
  const active: ReturnType<typeof fold> = new Map();
  for (const change of changes) {
    const key = keyOf(change);
    const before = active.get(key);
    expect(before === undefined, `${change.kind} at ${change.id}`).toBe(change.kind === "made");
    if (change.kind === "changed") expect(change.amount).not.toBe(before?.newest.amount);
    if (change.kind === "revoked") active.delete(key);
    else active.set(key, { made: before?.made ?? change, newest: change });
  }
  return active;
};

/** Both lists of a wallet, of both registries, under the names that the registries' answers have. */
const listsOf = (delegations: readonly ExplorerDelegation[], wallet: Address): Answers => {
  const answers: Answers = new Map();
  for (const version of ["v1", "v2"] as const) {
    const ofVersion = delegations.filter(({ registry }) => registry === version);
    const list = (end: "from" | "to") =>
      listOf(ofVersion.filter((shown) => shown[end] === getAddress(wallet)).map(readDelegation));
    answers.set(`${version} incoming ${wallet}`, list("to"));
    answers.set(`${version} outgoing ${wallet}`, list("from"));
  }
  return answers;
};

/** What a wallet's history and lists say. */
export type Told = {
  /** Its lists at the newest block. */
  lists: Answers;
  /** The same at a block, from its history. */
  listsAt: (block: bigint) => Answers;
};

const askExplorer =
  (apiUrl: string, block: bigint) =>
  async <Content>(path: string): Promise<Content> => {
    const response = await fetch(`${apiUrl}/explorer/${path}`);
    const body = await response.text();
    expect(response.status, `${path}: ${body}`).toBe(200);
    expect(response.headers.get("X-Indexed-Block"), path).toBe(String(block));
    return JSON.parse(body);
  };

/** Reads all that the explorer tells of a wallet at a block. Its lists and its history have to tell the same. */
export const readExplorer = async (apiUrl: string, chainId: number, wallet: Address, block: bigint): Promise<Told> => {
  const ask = askExplorer(apiUrl, block);
  const paging = `chainId=${chainId}&limit=${PAGE}`;
  const history = await readAllPages<HistoryPage>(ask, `history/${wallet}?${paging}`);
  const lists = await Promise.all(
    ["in", "out"].map((direction) =>
      readAllPages<ListPage>(ask, `delegations/${wallet}?direction=${direction}&${paging}`),
    ),
  );
  const changes = history.flatMap((page) => page.changes).toReversed();
  expect(new Set(changes.map(({ id }) => id)).size).toBe(changes.length);
  const listed = lists.flat().flatMap(({ delegations }) => delegations);

  // Active since the change that made it.
  const placeOf = ({ blockNumber, blockTimestamp, transactionHash }: ExplorerChange) => ({
    blockNumber,
    blockTimestamp,
    transactionHash,
  });
  const told = [...fold(changes).values()].map(({ made, newest }) => [keyOf(newest), placeOf(made)]);
  expect(Object.fromEntries(listed.map((shown) => [keyOf(shown), shown.since]))).toEqual(Object.fromEntries(told));
  expect(listed.length).toBe(told.length);

  return {
    lists: listsOf(listed, wallet),
    listsAt: (at) => {
      const until = changes.filter(({ blockNumber }) => blockNumber <= at);
      return listsOf(
        [...fold(until).values()].map(({ newest }) => newest),
        wallet,
      );
    },
  };
};

/** The registry's own list of what a vault has delegated, as far as it satisfies a check by itself. */
const grantsAmong = (question: Question, answers: Answers): string => {
  const { registry, check, vault, delegate } = question;
  const contract = "contract" in question ? question.contract : zeroAddress;
  const tokenId = "tokenId" in question ? question.tokenId : 0n;
  const rights = "rights" in question ? question.rights : zeroHash;
  const list = answers.get(`${registry} outgoing ${vault}`) ?? "";
  const satisfies = (line: string) => {
    const [type, , to, of, token, with_] = line.split(" ");
    if (to !== delegate.toLowerCase()) return false;
    if (registry === "v2" && with_ !== zeroHash && with_ !== rights) return false;
    if (type === "all") return true;
    if (check === "all" || of !== contract.toLowerCase()) return false;
    return type === "contract" || (type === check && BigInt(token ?? 0) === tokenId);
  };
  return list.split("\n").filter(satisfies).join("\n");
};

/** Asks for explanations of checks, and compares each with the registries' answers. */
export const expectExplained = async (
  apiUrl: string,
  chainId: number,
  block: bigint,
  answers: Answers,
  asked: readonly Question[],
): Promise<void> => {
  const ask = askExplorer(apiUrl, block);
  const questions = [...asked.entries()];
  while (questions.length > 0) {
    await Promise.all(
      questions.splice(0, AT_ONCE).map(async ([index, question]) => {
        const { registry, check } = question;
        const path = `explain?registry=${registry}&type=${check}&${checkQuery(question, chainId, index)}`;
        const { answer, grants } = await ask<Explained>(path);
        expect(String(answer), path).toBe(answers.get(textOf(question)));
        expect(listOf(grants.map(readDelegation)), path).toBe(grantsAmong(question, answers));
        // The answer is what the grants give.
        const given = grants.map(({ gives }) => BigInt(gives ?? 0)).reduce((a, b) => (a > b ? a : b), 0n);
        expect(answer, path).toBe(typeof answer === "boolean" ? grants.length > 0 : String(given));
      }),
    );
  }
};
