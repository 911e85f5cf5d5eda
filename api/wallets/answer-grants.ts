import type { Address, Hex } from "viem";
import { type CheckName, isBalanceCheck } from "../../registry/checks.ts";
import { NO_CONTRACT, NO_TOKEN } from "../../registry/delegation.ts";
import type { ApiContext } from "../context.ts";
import { nameWalletList } from "../contract/paging.ts";
import { checksumAddress } from "../delegations/checksum-address.ts";
import type { Dependencies } from "../delegations/dependencies.ts";
import { askNetworks } from "./ask-networks.ts";
import { type CandidateRow, findGrants } from "./find-grants.ts";
import { showDelegation } from "./wallet-json.ts";
import { countRowsToRead, cutPage, type Listable, type Order, respondPage } from "./wallet-page.ts";
import { chooseCheck, type NetworkValues, type ScopeValues, versionsOf } from "./wallet-parameters.ts";

export type GrantsValues = NetworkValues &
  ScopeValues & {
    list: "vaults" | "delegates";
    wallet: Address;
    rights: Hex;
    /** Only this wallet of the list. */
    other?: Address | undefined;
  };

/** Names the list of a question, for its cursors. */
export const nameGrants = ({ limit, cursor, partial, minBlock, ...question }: GrantsValues): string =>
  nameWalletList({ ...question, check: chooseCheck(question) });

/** By chain, breadth, block and log index. */
const ORDER: Order = ["ascending", "ascending", "ascending", "ascending"];

export const answerGrants = async (
  c: ApiContext,
  { database, shards }: Pick<Dependencies, "database" | "shards">,
  values: GrantsValues,
): Promise<Response> => {
  const { list, wallet, contract = NO_CONTRACT, tokenId = `${NO_TOKEN}`, rights, other, limit, timestamp } = values;
  const check = chooseCheck(values);
  const question = {
    wallet,
    end: list === "vaults" ? "delegate" : "vault",
    check,
    versions: versionsOf(values.registry),
    contract,
    tokenId,
    rights,
    other,
    timestamp,
  } as const;
  // A wallet with several grants is read several times. At a past block, so are those of revoked delegations.
  const isPast = (values.block ?? timestamp) !== undefined;
  const rows = isPast ? countRowsToRead(limit) : 2 * (limit + 1);
  const page = { after: values.cursor?.position, rows };
  const answer = await askNetworks(shards, values, findGrants(database, question, page));
  const candidates = groupCandidates(answer.rows).map((candidate) => ({
    ...candidate,
    isListed: isFirstGrant(candidate) && candidate.chainId in answer.blocks,
    isLastRead: candidate.number === rows,
  }));
  const { page: listed, end } = cutPage(candidates, limit, ORDER);
  return respondPage(c, values, {
    list: nameGrants(values),
    content: { wallet: checksumAddress(wallet), check },
    name: list,
    rows: listed,
    show: (candidate) => showCandidate(candidate, { list, wallet, check }),
    end: end?.position ?? null,
    answer,
  });
};

/** A wallet that may be listed, with all its grants in order. */
type Candidate = Pick<Listable, "chainId" | "position"> & { number: number; other: Address; grants: CandidateRow[] };

const groupCandidates = (rows: readonly CandidateRow[]): Candidate[] => {
  const candidates = new Map<string, Candidate>();
  for (const row of rows) {
    const { chainId, number, other, candidateBreadth, candidateBlock, candidateLog } = row;
    const position = [chainId, candidateBreadth, candidateBlock, candidateLog];
    const key = position.join();
    const candidate = candidates.get(key) ?? { chainId, position, number: Number(number), other, grants: [] };
    // A candidate without a grant: its delegation was revoked by then.
    if (row.registry !== null) candidate.grants.push(row);
    candidates.set(key, candidate);
  }
  const compare = (a: CandidateRow, b: CandidateRow) =>
    a.breadth - b.breadth || Number(a.blockNumber) - Number(b.blockNumber) || a.logIndex - b.logIndex;
  for (const { grants } of candidates.values()) grants.sort(compare);
  return [...candidates.values()];
};

/** True for the candidate by which a wallet is listed: at its first grant. */
const isFirstGrant = ({ chainId, position, grants: [first] }: Candidate): boolean =>
  first !== undefined && position.join() === [chainId, first.breadth, first.blockNumber, first.logIndex].join();

const showCandidate = (
  { chainId, other, grants }: Candidate,
  { list, wallet, check }: { list: GrantsValues["list"]; wallet: Address; check: CheckName },
) => {
  const [vault, delegate] = list === "vaults" ? [other, wallet] : [wallet, other];
  const amounts = grants.map(({ gives }) => BigInt(gives ?? 0));
  return {
    chainId,
    [list === "vaults" ? "vault" : "delegate"]: checksumAddress(other),
    amount: isBalanceCheck(check) ? String(amounts.reduce((a, b) => (a > b ? a : b), 0n)) : null,
    delegations: grants.map((grant) => showDelegation({ ...grant, vault, delegate })),
  };
};
