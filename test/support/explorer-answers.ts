import { type Address, getAddress, zeroAddress, zeroHash } from "viem";
import { expect } from "vitest";
import { type Answers, formatList, formatQuestion, type Listed, type WorldQuestion } from "./answers.ts";
import { buildCheckQuery } from "./api-answers.ts";
import {
  type Explained,
  type ExplorerChangeJson,
  type ExplorerDelegation,
  type HistoryPageJson,
  type ListPageJson,
  readAllPages,
} from "./explorer.ts";

// Compares the explorer's responses with the registries' own answers.

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

/** Folds changes into active delegations, and expects each change to fit the ones before it. */
const fold = (
  changes: readonly ExplorerChangeJson[],
): Map<string, { made: ExplorerChangeJson; newest: ExplorerChangeJson }> => {
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

/** Formats a wallet's lists of both registries, with their names in `Answers`. */
const listsOf = (delegations: readonly ExplorerDelegation[], wallet: Address): Answers => {
  const answers: Answers = new Map();
  for (const version of ["v1", "v2"] as const) {
    const ofVersion = delegations.filter(({ registry }) => registry === version);
    const list = (end: "from" | "to") =>
      formatList(ofVersion.filter((shown) => shown[end] === getAddress(wallet)).map(readDelegation));
    answers.set(`${version} incoming ${wallet}`, list("to"));
    answers.set(`${version} outgoing ${wallet}`, list("from"));
  }
  return answers;
};

export type ExplorerLists = {
  /** Lists at the newest block. */
  lists: Answers;
  /** Lists at a past block, from the history. */
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

/** Reads a wallet's lists and history at a block, and expects them to agree. */
export const readExplorer = async (
  apiUrl: string,
  chainId: number,
  wallet: Address,
  block: bigint,
): Promise<ExplorerLists> => {
  const ask = askExplorer(apiUrl, block);
  const paging = `chainId=${chainId}&limit=${PAGE}`;
  const history = await readAllPages<HistoryPageJson>(ask, `history/${wallet}?${paging}`);
  const lists = await Promise.all(
    ["in", "out"].map((direction) =>
      readAllPages<ListPageJson>(ask, `delegations/${wallet}?direction=${direction}&${paging}`),
    ),
  );
  const changes = history.flatMap((page) => page.changes).toReversed();
  expect(new Set(changes.map(({ id }) => id)).size).toBe(changes.length);
  const listed = lists.flat().flatMap(({ delegations }) => delegations);

  // A delegation is active since the change that made it.
  const placeOf = ({ blockNumber, blockTimestamp, transactionHash }: ExplorerChangeJson) => ({
    blockNumber,
    blockTimestamp,
    transactionHash,
  });
  const folded = [...fold(changes).values()].map(({ made, newest }) => [keyOf(newest), placeOf(made)]);
  expect(Object.fromEntries(listed.map((shown) => [keyOf(shown), shown.since]))).toEqual(Object.fromEntries(folded));
  expect(listed.length).toBe(folded.length);

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

/** Filters the registry's list of a vault's delegations for the ones that satisfy a check alone. */
const grantsAmong = (question: WorldQuestion, answers: Answers): string => {
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
  { apiUrl, chainId, block }: { apiUrl: string; chainId: number; block: bigint },
  answers: Answers,
  asked: readonly WorldQuestion[],
): Promise<void> => {
  const ask = askExplorer(apiUrl, block);
  const questions = [...asked.entries()];
  while (questions.length > 0) {
    await Promise.all(
      questions.splice(0, AT_ONCE).map(async ([index, question]) => {
        const { registry, check } = question;
        const path = `explain?registry=${registry}&type=${check}&${buildCheckQuery(question, chainId, index)}`;
        const { answer, grants } = await ask<Explained>(path);
        expect(String(answer), path).toBe(answers.get(formatQuestion(question)));
        expect(formatList(grants.map(readDelegation)), path).toBe(grantsAmong(question, answers));
        // The answer follows from the grants.
        const given = grants.map(({ gives }) => BigInt(gives ?? 0)).reduce((a, b) => (a > b ? a : b), 0n);
        expect(answer, path).toBe(typeof answer === "boolean" ? grants.length > 0 : String(given));
      }),
    );
  }
};
