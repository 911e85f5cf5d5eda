import { type Address, getAddress, type Hex, zeroAddress } from "viem";
import type { RegistryVersion } from "../../registry/networks.ts";
import { type Answers, type Listed, listOf, type Question, questionsOf, textOf } from "./answers.ts";
import type { World } from "./world.ts";

const AT_ONCE = 64;

/** The API did not answer for the block that it was asked at. */
export class OtherBlockError extends Error {
  override name = "OtherBlockError";
}

/**
 * What the API answers over HTTP at a block: every check, or some, and every list; each second one with a key, if
 * there is one.
 */
export const answersOfApi = async (
  apiUrl: string,
  chainId: number,
  world: World,
  blockNumber: bigint,
  { key, questions: asked = questionsOf(world) }: { key?: string | undefined; questions?: readonly Question[] } = {},
): Promise<Answers> => {
  let requests = 0;
  const get = async (path: string): Promise<string> => {
    const headers: Record<string, string> = key && requests++ % 2 === 1 ? { "X-API-KEY": key } : {};
    const response = await fetch(`${apiUrl}/registry/${path}`, { headers });
    const body = await response.text();
    const block = response.headers.get("X-Indexed-Block");
    if (response.status !== 200 || block !== String(blockNumber)) {
      throw new OtherBlockError(`${path}: ${response.status}, at block ${block}, not ${blockNumber}: ${body}`);
    }
    return body;
  };
  const answers: Answers = new Map();

  const questions = [...asked.entries()];
  while (questions.length > 0) {
    await Promise.all(
      questions.splice(0, AT_ONCE).map(async ([index, question]) => {
        answers.set(textOf(question), await get(checkPath(question, chainId, index)));
      }),
    );
  }

  for (const { address } of world.wallets) {
    for (const version of ["v1", "v2"] as const) {
      const body = await get(listPath(version, address, chainId));
      for (const [name, list] of readLists(version, address, body)) answers.set(name, list);
    }
  }
  return answers;
};

/** The question as a path below /registry. */
export const checkPath = (question: Question, chainId: number, index: number): string =>
  `${question.registry}/check/${question.check}?${checkQuery(question, chainId, index)}`;

/** The question as a request has it, in every spelling that there is: one after the other. */
export const checkQuery = (question: Question, chainId: number, index: number): URLSearchParams => {
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

/** The path of a wallet's list, with all that a registry says of a delegation. */
export const listPath = (version: RegistryVersion, address: Address, chainId: number): string =>
  `${version}/${address}?chainId=${chainId}&details=true&numbers=string`;

/** A wallet's two lists, by their names among the answers. */
export const readLists = (version: RegistryVersion, address: Address, body: string): [string, string][] => {
  const rows = JSON.parse(body) as Row[];
  if (!isInOrder(rows)) throw new Error(`The list of ${address} is not in order: ${body}`);
  const incoming = rows.filter(({ direction }) => direction === "incoming");
  // A delegation to itself is listed once, and counts for both.
  const outgoing = rows.filter(
    (row) => row.direction === "outgoing" || (row.vault ?? row.from) === getAddress(address),
  );
  return [
    [`${version} incoming ${address}`, listOf(incoming.map(readRow))],
    [`${version} outgoing ${address}`, listOf(outgoing.map(readRow))],
  ];
};

/** Incoming first; within each direction, the oldest first. */
const isInOrder = (rows: readonly Row[]): boolean => {
  const places = rows.map(({ direction, blockNumber }) => (direction === "incoming" ? 0 : 1e12) + blockNumber);
  return places.every((place, index) => place >= (places[index - 1] ?? 0));
};
