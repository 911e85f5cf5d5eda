import { sql } from "drizzle-orm";
import type { Address, Hex } from "viem";
import type { CheckName } from "../../registry/checks.ts";
import { askRegistries, otherEnd, type Source, selectCandidates, selectGrants } from "../../registry/grants.ts";
import type { RegistryVersion } from "../../registry/networks.ts";
import type { End } from "../../registry/state-at.ts";
import { findStart, type Position } from "../contract/paging.ts";
import type { Database } from "../database/database.ts";
import { hasIndexedBlock } from "../database/freshness.ts";
import { memoize } from "../database/memoize.ts";
import type { Moment } from "../delegations/check-delegation.ts";
import type { AskSchema } from "./ask-networks.ts";
import { HAS_MADE_BLOCK, networksStatement, readNetworks } from "./network-statement.ts";
import type { DelegationRow } from "./wallet-json.ts";

/** For which wallets may a wallet act (its end is "delegate"), or which may act for it? */
export type GrantsQuestion = {
  wallet: Address;
  end: End;
  check: CheckName;
  versions: readonly RegistryVersion[];
  /** Zero if the check has none, as in a delegation's key. */
  contract: Address;
  tokenId: string;
  rights: Hex;
  /** Only this wallet at the other end. */
  other?: Address | undefined;
  timestamp?: string | undefined;
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

type GrantsKind = Pick<GrantsQuestion, "end" | "check" | "versions"> & {
  schema: string;
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

/** Creates the reader of candidates in all networks of a schema. @param rows - how many to read */
export const findGrants =
  (
    database: Database,
    question: GrantsQuestion,
    { after, rows }: { after: Position | undefined; rows: number },
  ): AskSchema<CandidateRow> =>
  (schema, networks) => {
    const { wallet, end, check, versions, contract, tokenId, rights, other, timestamp } = question;
    const isPast = timestamp !== undefined || networks[0]?.block !== undefined;
    const moment: Moment = isPast ? "past" : "now";
    const kind = { schema, end, check, versions, isPair: other !== undefined, moment };
    const starts = networks.map(({ chainId }) => findStart([chainId], after));
    return readNetworks(database, findStatement(kind), networks, {
      wallet,
      contract,
      token_id: tokenId,
      rights,
      rows,
      other,
      timestamp,
      after_breadth: starts.map(([breadth]) => breadth),
      after_block: starts.map(([, block]) => block),
      after_log: starts.map(([, , log]) => log),
    });
  };
