import { networks, type RegistryVersion } from "../../registry/networks.ts";
import type { AskedBlock } from "../contract/parameters.ts";
import { type AnsweredBlock, type Freshness, isFinal, showAnsweredBlock } from "../database/freshness.ts";
import { notIndexed, Problem, problemDocument } from "../problem.ts";
import { answerHeaders } from "../respond.ts";
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
  const unanswered: Unanswered[] = findUnknownNetworks(shards, values);
  const answered = new Map<number, NetworkAnswer>();
  const rows: Row[] = [];
  const answer = async ([schema, ofSchema]: [string, Network[]]) => {
    const found = await askSchema(ask, schema, ofSchema);
    for (const { chainId, block } of ofSchema) {
      try {
        if (found instanceof Problem) throw found;
        const answer = requireBlock(shards, chainId, found.blocks.get(chainId), { ...values, block });
        if (values.block === "finalized") requireFinal(chainId, answer);
        answered.set(chainId, answer);
      } catch (problem) {
        unanswered.push({ chainId, problem: toProblem(problem) });
      }
    }
    if (!(found instanceof Problem)) rows.push(...found.rows);
  };
  await Promise.all([...groupBySchema(shards, values, unanswered)].map(answer));

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
    shards.findUnknownChains() ??
    (cursor?.missing.includes(null) ? notIndexed(`Some networks ${MISSING_BEFORE}`) : null);
  return problem ? [{ chainId: null, problem }] : [];
};

/** The list has gone beyond their rows. */
const MISSING_BEFORE = "could not be answered for on an earlier page: start again without the cursor.";

/** Groups networks by schema. In one go: a refresh of the shards in between could give a network two blocks. */
const groupBySchema = (shards: Shards, values: NetworkValues, unanswered: Unanswered[]): Map<string, Network[]> => {
  const bySchema = new Map<string, Network[]>();
  const kept = new Map(values.cursor?.blocks);
  for (const chainId of findNetworks(shards, values)) {
    try {
      if (values.cursor?.missing.includes(chainId)) throw notIndexed(`${describeChain(chainId)} ${MISSING_BEFORE}`);
      const schema = findSchema(shards, chainId, versionsOf(values.registry));
      const ofSchema = bySchema.get(schema) ?? [];
      ofSchema.push({ chainId, block: kept.get(`${chainId}`) ?? shards.findBlock(chainId, values) });
      bySchema.set(schema, ofSchema);
    } catch (problem) {
      unanswered.push({ chainId, problem: toProblem(problem) });
    }
  }
  return bySchema;
};

/** Finds the schema with all registries that a network has: with only one of them, an answer would look complete. */
const findSchema = (shards: Shards, chainId: number, versions: readonly RegistryVersion[]): string => {
  const existing = versions.filter((version) => networks.get(chainId)?.[version]);
  const [schema] = existing.map((version) => shards.findSchema(version, chainId));
  return schema ?? shards.findSchema("v2", chainId);
};

/** If a schema cannot be read in time, its networks fail; if the database is out of reach, the whole request does. */
const askSchema = async <Row>(
  ask: AskSchema<Row>,
  schema: string,
  networks: readonly Network[],
): Promise<NetworkRows<Row> | Problem> => {
  try {
    return await ask(schema, networks);
  } catch (error) {
    if (error instanceof Problem && error.problem !== "database-unavailable") return error;
    throw error;
  }
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

const toProblem = (error: unknown): Problem => {
  if (error instanceof Problem) return error;
  throw error;
};

const explainUnanswered = (unanswered: readonly Unanswered[], hasOthers: boolean): Problem => {
  const [{ problem: first }] = unanswered as [Unanswered];
  const reasons = unanswered.map(({ chainId, problem: { message } }) =>
    chainId === null || message.startsWith("Chain ") ? message : `${describeChain(chainId)}: ${message}`,
  );
  const hint = hasOthers ? ["With partial=true, the answer has the other networks."] : [];
  return new Problem(first.problem, [...new Set(reasons), ...hint].join(" "), first.extras);
};
