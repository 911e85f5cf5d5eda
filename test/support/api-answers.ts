import { setTimeout as sleep } from "node:timers/promises";
import { type Address, getAddress, type Hex, zeroAddress } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";
import { type Answers, formatList, formatQuestion, type Listed, listQuestions, type WorldQuestion } from "./answers.ts";
import type { World } from "./world.ts";

const AT_ONCE = 64;
/** Checks in one body. */
const MAX_CHECKS = 1_000;
const ATTEMPTS = 10;
const RETRY_MS = 500;

/** Thrown when an answer is for another block than the expected one. */
export class BlockMismatchError extends Error {
  override name = "OtherBlockError";
}

/**
 * Reads the API's answers at a block: all checks or a selection, and all lists. Every second request sends the key.
 * @param blockNumber - the newest indexed block
 * @param past - a block to ask for
 */
export const readApiAnswers = async ({
  apiUrl,
  chainId,
  world,
  blockNumber,
  past,
  key,
  questions: asked = listQuestions(world),
}: {
  apiUrl: string;
  chainId: number;
  world: World;
  blockNumber: bigint;
  past?: bigint | undefined;
  key?: string | undefined;
  questions?: readonly WorldQuestion[];
}): Promise<Answers> => {
  let requests = 0;
  const at = past === undefined ? "" : `&block=${past}`;
  const get = async (path: string): Promise<{ body: string; next: string | undefined }> => {
    const headers: Record<string, string> = key && requests++ % 2 === 1 ? { "X-API-KEY": key } : {};
    for (let attempt = 1; ; attempt++) {
      const response = await fetch(`${apiUrl}/registry/${path}`, { headers });
      const body = await response.text();
      const block = response.headers.get("X-Indexed-Block");
      const isAnswered = response.headers.get("X-Answered-Block") === (past === undefined ? null : String(past));
      if (response.status === 200 && block === String(blockNumber) && isAnswered) {
        return { body, next: /<\/registry\/(.*)>; rel="next"/.exec(response.headers.get("Link") ?? "")?.[1] };
      }
      // On a busy machine Postgres may take too long for some of the requests.
      const isBusy = response.status === 503 && /#problem-(database-unavailable|overloaded)"/.test(body);
      if (!isBusy || attempt === ATTEMPTS) {
        throw new BlockMismatchError(`${path}: ${response.status}, at block ${block}, not ${blockNumber}: ${body}`);
      }
      await sleep(RETRY_MS);
    }
  };
  const answers: Answers = new Map();

  const questions = [...asked.entries()];
  while (questions.length > 0) {
    await Promise.all(
      questions.splice(0, AT_ONCE).map(async ([index, question]) => {
        const { body } = await get(`${buildCheckPath(question, chainId, index)}${at}`);
        answers.set(formatQuestion(question), body);
      }),
    );
  }

  for (const { address } of world.wallets) {
    for (const version of ["v1", "v2"] as const) {
      const path = `${buildListPath(version, address, chainId)}${at}`;
      const { body } = await get(path);
      for (const [name, list] of readLists(version, address, body)) answers.set(name, list);
      if (past === undefined) continue;
      // Its pages add up to it.
      const pages: unknown[] = [];
      for (let next: string | undefined = `${path}&limit=2`; next !== undefined; ) {
        const page = await get(next);
        pages.push(...(JSON.parse(page.body) as unknown[]));
        next = page.next;
      }
      if (JSON.stringify(pages) !== body)
        throw new Error(`The pages of ${path} are ${JSON.stringify(pages)}, not ${body}`);
    }
  }
  return answers;
};

/** Reads the API's answers to checks in requests of up to 1,000, at the newest block or at a past one. */
export const readBulkAnswers = async ({
  apiUrl,
  chainId,
  newest,
  past,
  key,
  questions,
}: {
  apiUrl: string;
  chainId: number;
  newest: bigint;
  past: bigint | undefined;
  key: string;
  questions: readonly WorldQuestion[];
}): Promise<Answers> => {
  const answers: Answers = new Map();
  for (let first = 0; first < questions.length; first += MAX_CHECKS) {
    const asked = questions.slice(first, first + MAX_CHECKS);
    const checks = asked.map((question, index) => ({
      id: index,
      registry: question.registry,
      check: question.check,
      ...Object.fromEntries(buildCheckQuery(question, chainId, index)),
    }));
    const response = await fetch(`${apiUrl}/registry/checks`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-API-KEY": key },
      body: JSON.stringify({ checks, ...(past !== undefined && { block: Number(past) }) }),
    });
    const text = await response.text();
    if (response.status !== 200) throw new BlockMismatchError(`${response.status}: ${text}`);
    const body = JSON.parse(text) as { answers: { id: number; result?: boolean | string }[]; blocks: object };
    if (!text.includes(`"blocks":{"${chainId}":{"number":${past ?? newest},`))
      throw new BlockMismatchError(JSON.stringify(body.blocks));
    for (const [index, { id, result }] of body.answers.entries()) {
      const question = asked[index];
      if (id !== index || !question) throw new Error(`Answer ${index} has the id ${id}.`);
      answers.set(formatQuestion(question), String(result));
    }
  }
  return answers;
};

/** Builds the path of a check, below /registry. */
export const buildCheckPath = (question: WorldQuestion, chainId: number, index: number): string =>
  `${question.registry}/check/${question.check}?${buildCheckQuery(question, chainId, index)}`;

/** Builds the query of a check. The index selects one of the accepted spellings, so that all of them occur. */
const buildCheckQuery = (question: WorldQuestion, chainId: number, index: number): URLSearchParams => {
  const { registry, check: _, vault, delegate, ...rest } = question;
  const isOther = registry === "v2" && index % 2 === 1;
  const query = new URLSearchParams({
    [isOther ? "to" : "delegate"]: index % 3 === 0 ? getAddress(delegate) : delegate,
    [isOther ? "from" : "vault"]: vault,
    chainId: String(chainId),
  });
  if ("contract" in rest) query.set("contract", rest.contract);
  if ("tokenId" in rest)
    query.set("tokenId", index % 5 === 0 ? `0x${rest.tokenId.toString(16)}` : String(rest.tokenId));
  if ("rights" in rest) query.set("rights", rest.rights);
  return query;
};

type Row = {
  type: string;
  vault?: Address;
  delegate?: Address;
  from?: Address;
  to?: Address;
  contract: Address | null;
  tokenId: string | null;
  direction: "incoming" | "outgoing";
  rights?: Hex;
  amount?: string | null;
  tokenStandard?: string | null;
  blockNumber: number;
};

const readRow = (row: Row): Listed => {
  const [vault, delegate] = [row.vault ?? row.from, row.delegate ?? row.to];
  if (!vault || !delegate) throw new Error(`A delegation without wallets: ${JSON.stringify(row)}`);
  return {
    type: row.tokenStandard ?? row.type,
    vault,
    delegate,
    contract: row.contract ?? zeroAddress,
    tokenId: BigInt(row.tokenId ?? 0),
    ...(row.rights && { rights: row.rights, amount: BigInt(row.amount ?? 0) }),
  };
};

/** Builds the path of a wallet's list, with all fields of its delegations. */
export const buildListPath = (version: RegistryVersion, address: Address, chainId: number): string =>
  `${version}/${address}?chainId=${chainId}&details=true&numbers=string`;

/** Reads a wallet's incoming and outgoing list, with their names in `Answers`. */
export const readLists = (version: RegistryVersion, address: Address, body: string): [string, string][] => {
  const rows = JSON.parse(body) as Row[];
  if (!isInOrder(rows)) throw new Error(`The list of ${address} is not in order: ${body}`);
  const incoming = rows.filter(({ direction }) => direction === "incoming");
  // A wallet's delegation to itself is listed once, as incoming, and belongs to both lists.
  const outgoing = rows.filter(
    (row) => row.direction === "outgoing" || (row.vault ?? row.from) === getAddress(address),
  );
  return [
    [`${version} incoming ${address}`, formatList(incoming.map(readRow))],
    [`${version} outgoing ${address}`, formatList(outgoing.map(readRow))],
  ];
};

/** Incoming first; within each direction, the oldest first. */
const isInOrder = (rows: readonly Row[]): boolean => {
  const places = rows.map(({ direction, blockNumber }) => (direction === "incoming" ? 0 : 1e12) + blockNumber);
  return places.every((place, index) => place >= (places[index - 1] ?? 0));
};
