import { networks, type RegistryVersion } from "../../registry/networks.ts";
import type { AskedBlock } from "../contract/parameters.ts";
import { type AnsweredBlock, type Freshness, isFinal, showAnsweredBlock } from "../database/freshness.ts";
import { notIndexed, Problem, problemDocument } from "../problem.ts";
import { answerHeaders } from "../respond.ts";
import { askPerShard } from "../shards/ask-per-shard.ts";
import { describeChain, type Shards } from "../shards/shards.ts";
import { findNetworks, type NetworkValues, versionsOf } from "./wallet-parameters.ts";

/** A network, and the past block to answer for, in digits. */
export type Network = { chainId: number; block: string | undefined };

/** The block of a network's rows. With a time, the last one up to it that changed a delegation. */
export type NetworkBlock = { freshness: Freshness | null; number: string | null; timestamp: string | null };

export type NetworkRows<Row> = { rows: Row[]; blocks: Map<number, NetworkBlock> };

/** Asks one schema about networks that it has. */
export type AskSchema<Row> = (schema: string, networks: readonly Network[]) => Promise<NetworkRows<Row>>;

type NetworkAnswer = { freshness: Freshness; block: AnsweredBlock };
type Unanswered = { chainId: number | null; problem: Problem };

/** All rows, the blocks of the networks that can be answered for, and the other networks. */
export type NetworksAnswer<Row> = {
  rows: Row[];
  blocks: Record<number, AnsweredBlock>;
  unanswered: { chainId: number | null; problem: unknown }[];
  /** Of one network, with its block. */
  headers: Record<string, string>;
};

/** Asks about all networks of a question. Throws a problem if one of them cannot be answered for, unless parts will do. */
export const askNetworks = async <Row>(
  shards: Shards,
  values: NetworkValues,
  ask: AskSchema<Row>,
): Promise<NetworksAnswer<Row>> => {
  // Before the first wait: a refresh of the shards in between could find the unknown networks, which were not asked.
  const unanswered = findUnknownNetworks(shards, values);
  const kept = new Map(values.cursor?.blocks);
  const rows: Row[] = [];
  const found = await askPerShard({
    parts: findNetworks(shards, values),
    locate: (chainId) => {
      if (values.cursor?.missing.includes(chainId)) throw notIndexed(`${describeChain(chainId)} ${MISSING_BEFORE}`);
      const schema = findSchema(shards, chainId, versionsOf(values.registry));
      return [schema, { chainId, block: kept.get(`${chainId}`) ?? shards.findBlock(chainId, values) }];
    },
    ask: async (schema, networks) => {
      const found = await ask(schema, networks);
      rows.push(...found.rows);
      return found.blocks;
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
    unanswered: unanswered.map(({ chainId, problem }) => ({
      chainId,
      problem: JSON.parse(problemDocument(problem).body),
    })),
    headers: createHeaders(values, [...answered.values()]),
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
const findUnknownNetworks = (shards: Shards, { chainId, cursor }: NetworkValues): Unanswered[] => {
  if (chainId.length > 0) return [];
  const problem =
    shards.explainUnknownChains() ??
    (cursor?.missing.includes(null) ? notIndexed(`Some networks ${MISSING_BEFORE}`) : null);
  return problem ? [{ chainId: null, problem }] : [];
};

/** The list has gone beyond their rows. */
const MISSING_BEFORE = "could not be answered for on an earlier page: start again without the cursor.";

/** Finds the schema with all registries that a network has: with only one of them, an answer would look complete. */
const findSchema = (shards: Shards, chainId: number, versions: readonly RegistryVersion[]): string => {
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

const explainUnanswered = (unanswered: readonly Unanswered[], hasOthers: boolean): Problem => {
  const [{ problem: first }] = unanswered as [Unanswered];
  const reasons = unanswered.map(({ chainId, problem: { message } }) =>
    chainId === null || message.startsWith(describeChain(chainId)) ? message : `${describeChain(chainId)}: ${message}`,
  );
  const hint = hasOthers ? ["With partial=true, the answer has the other networks."] : [];
  return new Problem(first.problem, [...new Set(reasons), ...hint].join(" "), first.extras);
};
