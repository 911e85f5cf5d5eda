import { networks, type RegistryVersion } from "../../registry/networks.ts";
import type { AskedBlock } from "../contract/parameters.ts";
import type { Database } from "../database/database.ts";
import {
  type AnsweredBlock,
  type Freshness,
  isFinal,
  readFreshness,
  showAnsweredBlock,
} from "../database/freshness.ts";
import type { Statement } from "../database/statement.ts";
import { type Moment, momentOf } from "../delegations/check-delegation.ts";
import { notIndexed, Problem, problemDocument } from "../problem.ts";
import { answerHeaders } from "../respond.ts";
import { askPerShard } from "../shards/ask-per-shard.ts";
import { describeChain, type Shards } from "../shards/shards.ts";
import type { NetworkRow } from "./network-statement.ts";
import { type NetworkValues, versionsOf } from "./wallet-parameters.ts";

/** How to read a list: a statement, and its values. */
export type Plan<Row> = {
  findStatement: (schema: string, moment: Moment) => Statement<NetworkRow<Row>>;
  /** Values that are the same for all networks, by column of `q`. */
  values: Readonly<Record<string, unknown>> & {
    /** The number of rows to read. */
    rows: number;
  };
  /** Finds where a network's part of the page starts: values by column of `q`. */
  startOf: (chainId: number) => Readonly<Record<string, unknown>>;
};

/** A network, and the past block to answer for, in digits. */
type AskedNetwork = { chainId: number; block: string | undefined };

/** The block of a network's rows. */
type NetworkBlock = { freshness: Freshness | null; number: string | null; timestamp: string | null };

type NetworkAnswer = { freshness: Freshness; block: AnsweredBlock };
export type Unanswered = { chainId: number | null; problem: Problem };

/** All rows, the blocks of the networks that can be answered for, and the other networks. */
export type NetworksAnswer<Row> = {
  rows: (Row & { chainId: number })[];
  blocks: Record<number, AnsweredBlock>;
  unanswered: { chainId: number | null; problem: unknown }[];
  /** Of one network, with its block. */
  headers: Record<string, string>;
};

/** Asks about all networks of a question. Throws a problem if one of them cannot be answered for, unless parts will do. */
export const askNetworks = async <Row>(
  database: Pick<Database, "read">,
  shards: Shards,
  values: NetworkValues,
  plan: Plan<Row>,
): Promise<NetworksAnswer<Row>> => {
  // Before the first wait: a refresh of the shards in between could find the unknown networks, which were not asked.
  const unanswered = findUnknownNetworks(shards, values);
  const kept = new Map(values.cursor?.blocks);
  const rows: NetworksAnswer<Row>["rows"] = [];
  const found = await askPerShard({
    parts: values.chains,
    locate: (chainId) => {
      if (values.cursor?.missing.includes(chainId)) throw notIndexed(`${describeChain(chainId)} ${MISSING_BEFORE}`);
      const schema = findSchema(shards, chainId, versionsOf(values.registry));
      return [schema, { chainId, block: kept.get(`${chainId}`) ?? shards.findBlock(chainId, values) }];
    },
    ask: async (schema, networks) => {
      const blocks = new Map<number, NetworkBlock>();
      for (const row of await readNetworks(database, { schema, networks, timestamp: values.timestamp }, plan)) {
        const chainId = Number(row.chainId);
        // Not a copy: there may be thousands of rows.
        if (row.isFound) rows.push(Object.assign(row, { chainId }));
        else blocks.set(chainId, readBlock(row));
      }
      return blocks;
    },
    read: (blocks, { chainId, block }) => {
      const answer = requireBlock(shards, chainId, blocks.get(chainId), { ...values, block });
      if (values.block === "finalized") requireFinal(chainId, answer);
      return answer;
    },
  });
  const answered = new Map<number, NetworkAnswer>();
  for (const [chainId, answer] of found) {
    if (answer instanceof Problem) unanswered.push({ chainId, problem: answer });
    else answered.set(chainId, answer);
  }

  if (unanswered.length > 0 && !(values.partial && answered.size > 0)) {
    throw explainUnanswered(unanswered, answered.size > 0);
  }
  unanswered.sort((a, b) => (a.chainId ?? 0) - (b.chainId ?? 0));
  return {
    rows,
    blocks: Object.fromEntries([...answered].map(([chainId, { block }]) => [chainId, block])),
    unanswered: unanswered.map(showUnanswered),
    headers: createHeaders(values, [...answered.values()]),
  };
};

/** Reads the rows of networks in one schema, and the block of each. */
const readNetworks = <Row>(
  database: Pick<Database, "read">,
  asked: { schema: string; networks: readonly AskedNetwork[]; timestamp: string | undefined },
  { findStatement, values, startOf }: Plan<Row>,
): Promise<NetworkRow<Row>[]> => {
  const { schema, networks, timestamp } = asked;
  const moment = momentOf({ block: timestamp ?? networks[0]?.block });
  const starts = networks.map(({ chainId }) => startOf(chainId));
  const columns = Object.keys(starts[0] ?? {});
  return database.read("lists", findStatement(schema, moment), {
    ...values,
    ...Object.fromEntries(columns.map((column) => [column, starts.map((start) => start[column])])),
    chain_id: networks.map(({ chainId }) => chainId),
    asked_block: networks.map(({ block }) => block ?? null),
    timestamp,
  });
};

const readBlock = (row: NetworkRow<unknown>): NetworkBlock => {
  const freshness = readFreshness(row);
  return {
    freshness: freshness && { ...freshness, finalizedBlockTimestamp: row.finalizedBlockTimestamp ?? "0" },
    number: row.answeredBlock,
    timestamp: row.answeredTimestamp,
  };
};

/** The headers of an answer about one network name its block, as those of other operations do. */
const createHeaders = (
  { block, minBlock, timestamp }: AskedBlock,
  [only, ...others]: readonly NetworkAnswer[],
): Record<string, string> => {
  if (!only || others.length > 0) return { "Cache-Control": "no-store" };
  const headers = answerHeaders(only.freshness);
  const { number, final } = only.block;
  if ((block ?? minBlock ?? timestamp) === undefined || number === null) return headers;
  return { ...headers, "X-Answered-Block": `${number}`, "X-Answered-Block-Final": `${final}` };
};

/** A question about all networks has no answer for those that are not known yet, or were not on an earlier page. */
export const findUnknownNetworks = (
  shards: Shards,
  { chainId, cursor }: Pick<NetworkValues, "chainId" | "cursor">,
): Unanswered[] => {
  if (chainId.length > 0) return [];
  const problem =
    shards.findNotStartedProblem() ??
    (cursor?.missing.includes(null) ? notIndexed(`Some networks ${MISSING_BEFORE}`) : null);
  return problem ? [{ chainId: null, problem }] : [];
};

/** The list has gone beyond their rows. */
const MISSING_BEFORE = "could not be answered for on an earlier page: start again without the cursor.";

/** Finds the schema with all registries that a network has: with only one of them, an answer would look complete. */
export const findSchema = (shards: Shards, chainId: number, versions: readonly RegistryVersion[]): string => {
  const existing = versions.filter((version) => networks.get(chainId)?.[version]);
  const [schema] = existing.map((version) => shards.findSchema(version, chainId));
  return schema ?? shards.findSchema("v2", chainId);
};

const requireBlock = (
  shards: Shards,
  chainId: number,
  found: NetworkBlock | undefined,
  asked: AskedBlock,
): NetworkAnswer => {
  const freshness = shards.requireFresh(chainId, found?.freshness ?? null, asked);
  if (asked.timestamp !== undefined) {
    const [number, timestamp] = [toNumber(found?.number ?? null), toNumber(found?.timestamp ?? null)];
    return { freshness, block: { number, timestamp, final: isFinal(freshness, asked) } };
  }
  return { freshness, block: showAnsweredBlock(freshness, asked.block) };
};

/** The block of a cursor need not be final: anyone can write one, and an index that is built anew has to reach it again. */
const requireFinal = (chainId: number, { freshness, block }: NetworkAnswer): void => {
  if (block.final) return;
  const { finalizedBlock } = freshness;
  throw notIndexed(
    `${describeChain(chainId)} is final up to block ${finalizedBlock}, not yet up to block ${block.number}.`,
  );
};

const toNumber = (digits: string | null) => (digits === null ? null : Number(digits));

export const showUnanswered = ({ chainId, problem }: Unanswered) => ({
  chainId,
  problem: JSON.parse(problemDocument(problem).body),
});

export const explainUnanswered = (unanswered: readonly Unanswered[], hasOthers: boolean): Problem => {
  const [{ problem: first }] = unanswered as [Unanswered];
  const reasons = unanswered.map(({ chainId, problem: { message } }) =>
    chainId === null || message.startsWith(describeChain(chainId)) ? message : `${describeChain(chainId)}: ${message}`,
  );
  const hint = hasOthers ? ["With partial=true, the answer has the other networks."] : [];
  return new Problem(first.problem, [...new Set(reasons), ...hint].join(" "), first.extras);
};
