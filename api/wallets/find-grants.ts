import { sql } from "drizzle-orm";
import type { Address, Hex } from "viem";
import { type CheckName, isBalanceCheck } from "../../registry/checks.ts";
import { NO_CONTRACT, NO_TOKEN } from "../../registry/delegation.ts";
import { askRegistries, otherEnd, type Source, selectCandidates, selectGrants } from "../../registry/grants.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import type { End } from "../../registry/state-at.ts";
import { findStart } from "../contract/paging.ts";
import { hasIndexedBlock } from "../database/freshness.ts";
import { memoize } from "../database/memoize.ts";
import type { Moment } from "../delegations/check-delegation.ts";
import { checksumAddress } from "../delegations/checksum-address.ts";
import type { Plan } from "./ask-networks.ts";
import { HAS_MADE_BLOCK, networksStatement } from "./network-statement.ts";
import { type DelegationRow, showDelegation } from "./wallet-json.ts";
import { countRowsToRead, isPast, type Listed, type ListValues, type WalletList } from "./wallet-list.ts";
import { type CheckValues, versionsOf } from "./wallet-parameters.ts";

/** For which wallets may a wallet act, or which may act for it? */
export type GrantsValues = ListValues &
  CheckValues & {
    list: "vaults" | "delegates";
    check: CheckName;
    rights: Hex;
    /** Only this wallet at the other end. */
    other?: Address | undefined;
  };

/**
 * A candidate for the list, with one of its grants or none. It is listed if its position is that of its first grant.
 */
export type CandidateRow = Omit<DelegationRow, "chainId" | "vault" | "delegate"> & {
  chainId: number;
  other: Address;
  /** Its number among the candidates that the statement has read. */
  number: string;
  candidateBreadth: number;
  candidateBlock: string;
  candidateLog: number;
  breadth: number;
  gives: string | null;
};

const COLUMNS = {
  other: "q.other",
  number: "q.number",
  candidateBreadth: "q.breadth",
  candidateBlock: "q.block_number",
  candidateLog: "q.log_index",
  registry: "found.registry",
  type: "found.type",
  contract: "found.contract",
  tokenId: "found.token_id",
  rights: "found.rights",
  amount: "found.amount",
  blockNumber: "found.block_number",
  logIndex: "found.log_index",
  blockTimestamp: "found.block_timestamp",
  transactionHash: "found.transaction_hash",
  breadth: "found.breadth",
  gives: "found.gives",
};

const VALUES = { wallet: "text", contract: "text", token_id: "numeric", rights: "text", rows: "bigint" };
const AFTER = { after_breadth: "bigint", after_block: "bigint", after_log: "bigint" };

type GrantsKind = {
  schema: string;
  /** The end of the wallet: it is a vault's delegate, or a delegate's vault. */
  end: End;
  check: CheckName;
  versions: readonly RegistryVersion[];
  /** True for one wallet at the other end. */
  isPair: boolean;
  moment: Moment;
};

export const grantsStatement = (kind: GrantsKind) => {
  const { schema, end, check, versions, isPair, moment } = kind;
  const asked = askRegistries(versions, check);
  const source: Source = {
    active: (version) => `"${schema}".delegation_${version}`,
    log: `"${schema}".delegation_change`,
    moment,
    condition: moment === "past" ? HAS_MADE_BLOCK : "true",
  };
  const grants = selectGrants(source, asked);
  // The wallets of a pair are known: their first grant is the only candidate.
  const [network, candidates] = isPair
    ? [
        `(select network.*, wallet as ${end}, other as ${otherEnd(end)} from network)`,
        `select q.other, breadth, block_number, log_index from (${grants}) first
         where q.after_breadth < 0 order by breadth, block_number, log_index limit 1`,
      ]
    : ["network", selectCandidates(source, end, asked)];
  const from = `(
      select q.chain_id, q.contract, q.token_id, q.rights, q.block, q.rows, q.wallet as ${end},
        candidate.other as ${otherEnd(end)}, candidate.*,
        row_number() over (order by q.chain_id, candidate.breadth, candidate.block_number, candidate.log_index) as number
      from ${network} q cross join lateral (
        select * from (${candidates}) candidate where ${hasIndexedBlock(schema)}
      ) candidate
    ) q
    left join lateral (${grants}) found on true
    where q.number <= q.rows`;
  return networksStatement<CandidateRow>(nameStatement(kind), {
    schema,
    moment,
    values: isPair ? { ...VALUES, other: "text" } : VALUES,
    networkValues: AFTER,
    from: sql.raw(from),
    columns: COLUMNS,
  });
};

const nameStatement = ({ end, check, versions, isPair, moment }: GrantsKind) =>
  `${isPair ? "pair" : "wallets"} by ${end}, ${versions.join(" and ")} ${check}, ${moment}`;

const findStatement = memoize(grantsStatement, (kind) => `${kind.schema} ${nameStatement(kind)}`);

const planGrants = (values: GrantsValues): Plan<CandidateRow> => {
  const { list, wallet, check, registry, rights, other, limit, cursor } = values;
  const { contract = NO_CONTRACT, tokenId = `${NO_TOKEN}` } = values;
  const end = list === "vaults" ? "delegate" : "vault";
  const kind = { end, check, versions: versionsOf(registry), isPair: other !== undefined } as const;
  // A wallet with several grants is read several times. At a past block, so are those of revoked delegations.
  const rows = isPast(values) ? countRowsToRead(limit) : 2 * (limit + 1);
  return {
    findStatement: (schema, moment) => findStatement({ ...kind, schema, moment }),
    values: { wallet, contract, token_id: tokenId, rights, other, rows },
    startOf: (chainId) => {
      const [after_breadth, after_block, after_log] = findStart([chainId], cursor?.position);
      return { after_breadth, after_block, after_log };
    },
  };
};

/** A wallet that may be listed, with all its grants in order. */
type Candidate = Listed & { other: Address; grants: CandidateRow[] };

const groupCandidates = (rows: readonly CandidateRow[]): Candidate[] => {
  const candidates = new Map<string, Candidate>();
  for (const row of rows) {
    const { chainId, number, other, candidateBreadth, candidateBlock, candidateLog } = row;
    const position = [chainId, candidateBreadth, candidateBlock, candidateLog].map(String);
    const key = position.join();
    const candidate = candidates.get(key) ?? { chainId, position, number, isListed: false, other, grants: [] };
    // A candidate without a grant: its delegation was revoked by then.
    if (row.registry !== null) candidate.grants.push(row);
    candidates.set(key, candidate);
  }
  const compare = (a: CandidateRow, b: CandidateRow) =>
    a.breadth - b.breadth || Number(a.blockNumber) - Number(b.blockNumber) || a.logIndex - b.logIndex;
  for (const candidate of candidates.values()) {
    candidate.grants.sort(compare);
    candidate.isListed = isFirstGrant(candidate);
  }
  return [...candidates.values()];
};

/** True for the candidate by which a wallet is listed: at its first grant. */
const isFirstGrant = ({ chainId, position, grants: [first] }: Candidate): boolean =>
  first !== undefined && position.join() === [chainId, first.breadth, first.blockNumber, first.logIndex].join();

const showCandidate = ({ chainId, other, grants }: Candidate, { list, wallet, check }: GrantsValues) => {
  const [vault, delegate] = list === "vaults" ? [other, wallet] : [wallet, other];
  const amounts = grants.map(({ gives }) => BigInt(gives ?? 0));
  return {
    chainId,
    [list === "vaults" ? "vault" : "delegate"]: checksumAddress(other),
    amount: isBalanceCheck(check) ? String(amounts.reduce((a, b) => (a > b ? a : b), 0n)) : null,
    delegations: grants.map((grant) => showDelegation({ ...grant, vault, delegate })),
  };
};

/** The wallets for which a wallet may act, or which may act for it: by chain, breadth, block and log index. */
export const grants: WalletList<GrantsValues, CandidateRow, Candidate> = {
  order: ["ascending", "ascending", "ascending", "ascending"],
  plan: planGrants,
  collect: groupCandidates,
  show: showCandidate,
};
