import type { Database } from "../database/database.ts";
import type { PoolName } from "../database/pools.ts";
import { notIndexed, type Problem } from "../problem.ts";
import { askPerShard } from "../shards/ask-per-shard.ts";
import { describeChain, type Shards } from "../shards/shards.ts";
import { findSchema } from "../wallets/ask-networks.ts";
import { versionsOf } from "../wallets/wallet-parameters.ts";
import {
  type ChangedBlock,
  createPosition,
  hashBlocks,
  MAX_INTEGER,
  nameQuestion,
  type Position,
} from "./change-cursor.ts";
import { changesStatement, type FoundChange, type ReadBy } from "./change-statement.ts";
import type { Filters, Finality } from "./filters.ts";

/** A network to read, and from where: a position, from now on, or null for a time. */
export type Asked = {
  chainId: number;
  position: Position | "now" | null;
  /** The last block to read, by default the newest. */
  toBlock?: number;
};

/** The block up to which everything has been sent, as JSON shows it. */
export type ReachedBlock = { number: number; timestamp: number; final: boolean; finalized: number };

/** A change, and the position after it. */
export type ReadChange = { row: FoundChange & { chainId: number }; position: Position; isFinal: boolean };

/** What a reader has to be told of a network, in this order. */
export type NetworkChanges = {
  chainId: number;
  /** Everything after this position is void. */
  undoTo: Position | null;
  changes: ReadChange[];
  /** Null while no change after the time has been found. */
  position: Position | null;
  /** True if there are more changes to read. */
  hasMore: boolean;
  /** Null if there are, or while a reorg has left the chain shorter than the reader knows it. */
  reached: ReachedBlock | null;
};

export type Question = {
  filters: Filters;
  finality: Finality;
  /** For networks without a position. */
  since: number;
  /** Maximum rows to read over all networks of a shard. */
  rows: number;
  pool: Exclude<PoolName, "cursors">;
};

const findIndex = ({ vault, delegate, wallet }: Filters): ReadBy =>
  vault ? "vault" : delegate ? "delegate" : wallet ? "wallet" : "log";

/** Names a question in its cursors. @param chainId - as asked for: all networks if empty */
export const nameChanges = (chainId: readonly number[], finality: Finality, filters: Filters): string => {
  const { registry, wallet, vault, delegate, contract, type } = filters;
  const asked = chainId.toSorted((a, b) => a - b);
  return nameQuestion([finality, asked, registry, wallet, vault, delegate, contract, type]);
};

/** Greater than any block. */
const NO_BLOCK = Number.MAX_SAFE_INTEGER;

/** Reads what is new on several networks, in one statement per shard. A network that cannot be answered for is a problem. */
export const readChanges = (
  database: Pick<Database, "read">,
  shards: Shards,
  question: Question,
  asked: readonly Asked[],
): Promise<Map<Asked, NetworkChanges | Problem>> => {
  const versions = versionsOf(question.filters.registry);
  return askPerShard({
    parts: asked,
    locate: (each) => [findSchema(shards, each.chainId, versions), each],
    ask: async (schema, networks) => {
      const found = new Map<number, Found>();
      const undone = new Map<number, Position>();
      // Each read is a snapshot of its own: before another one, a reorg may have gone deeper. Each undo is before the last.
      for (let asked = networks; asked.length > 0; ) {
        for (const [chainId, each] of await readNetworks(database, schema, question, asked)) found.set(chainId, each);
        asked = asked.flatMap((each) => {
          const { chainId, position } = each;
          const { block, blocks } = found.get(chainId) ?? NOTHING;
          if (!block || position === "now" || !position) return [];
          const undoTo = findUndone(chainId, position, { head: headOf(block, question), blocks });
          if (!undoTo) return [];
          undone.set(chainId, undoTo);
          return [{ ...each, position: undoTo }];
        });
      }
      return { found, undone };
    },
    read: ({ found, undone }, each) => {
      const { chainId } = each;
      const { block, ...rest } = found.get(chainId) ?? NOTHING;
      const isFinal = question.finality === "final";
      const freshness = shards.requireFresh(chainId, block, isFinal && block ? { block: block.finalizedBlock } : {});
      const finalized = Number(freshness.finalizedBlock);
      const undoTo = undone.get(chainId) ?? null;
      const position = undoTo ?? each.position;
      const head = headOf(freshness, question);
      if (position && position !== "now" && head < position.final) {
        throw notIndexed(`${describeChain(chainId)} is not indexed up to block ${position.final} again yet.`);
      }
      const timestamp = isFinal ? freshness.finalizedBlockTimestamp : freshness.indexedBlockTimestamp;
      const reached = { number: head, timestamp: Number(timestamp), final: head <= finalized, finalized };
      return { undoTo, ...collect({ ...each, position }, { ...rest, reached }) };
    },
  });
};

type Block = {
  indexedBlock: string;
  indexedBlockTimestamp: string;
  finalizedBlock: string;
  finalizedBlockTimestamp: string;
};

type Found = {
  block: Block | null;
  rows: FoundChange[];
  /** True if all rows of the network have been read. */
  isComplete: boolean;
  blocks: ChangedBlock[];
};

const NOTHING: Found = { block: null, rows: [], isComplete: false, blocks: [] };

const headOf = (block: Pick<Block, "indexedBlock" | "finalizedBlock">, { finality }: Question): number =>
  Number(finality === "final" ? block.finalizedBlock : block.indexedBlock);

const readNetworks = async (
  database: Pick<Database, "read">,
  schema: string,
  { filters, finality, since, rows: maxRows, pool }: Question,
  networks: readonly Asked[],
): Promise<Map<number, Found>> => {
  const positions = networks.map(({ position }) => position);
  const known = positions.map((position) => (position === "now" ? null : position));
  const rows = await database.read(pool, changesStatement({ schema, by: findIndex(filters) }), {
    chain_id: networks.map(({ chainId }) => chainId),
    after_block: positions.map((position) => (position === "now" ? NO_BLOCK : (position?.block ?? null))),
    // By default after the whole block.
    after_log: known.map((position) => position?.change?.logIndex ?? MAX_INTEGER),
    after_ordinal: known.map((position) => position?.change?.ordinal ?? MAX_INTEGER),
    final_block: known.map((position) => position?.final ?? null),
    to_block: networks.map(({ toBlock }) => toBlock ?? null),
    is_final: finality === "final",
    since,
    rows: maxRows,
    registry: filters.registry === "both" ? null : filters.registry,
    wallet: filters.wallet ?? null,
    vault: filters.vault ?? null,
    delegate: filters.delegate ?? null,
    contract: filters.contract ?? null,
    type: filters.type ?? null,
  });
  // Those after the network of the last row have not been read.
  const last = rows.findLast((row) => row.isChange && Number(row.number) === maxRows);
  const firstIncomplete = Number(last?.place ?? networks.length + 1);
  const found = new Map(networks.map(({ chainId }) => [chainId, { ...NOTHING, rows: [] as FoundChange[] }]));
  for (const row of rows) {
    const network = found.get(networks[Number(row.place) - 1]?.chainId ?? 0);
    if (!network) continue;
    if (row.isChange) {
      const previous = network.rows.at(-1);
      if (previous && comparePlaces(previous, row) >= 0) throw new Error("Changes were not read in their order.");
      network.rows.push(row);
    } else {
      network.isComplete = Number(row.place) < firstIncomplete;
      network.block = readBlock(row);
      network.blocks = Object.entries(row.blocks ?? {})
        .map(([number, digest]) => ({ number: Number(number), digest }))
        .toSorted((a, b) => a.number - b.number);
    }
  }
  return found;
};

const readBlock = (row: { [Name in keyof Block]: string | null }): Block | null => {
  const { indexedBlock, indexedBlockTimestamp, finalizedBlock, finalizedBlockTimestamp } = row;
  if (indexedBlock === null || indexedBlockTimestamp === null || finalizedBlock === null) return null;
  return {
    indexedBlock,
    indexedBlockTimestamp,
    finalizedBlock,
    finalizedBlockTimestamp: finalizedBlockTimestamp ?? "0",
  };
};

type Place = Pick<FoundChange, "blockNumber" | "logIndex" | "ordinal">;
const comparePlaces = (a: Place, b: Place): number =>
  Number(a.blockNumber) - Number(b.blockNumber) || a.logIndex - b.logIndex || a.ordinal - b.ordinal;

const between = (blocks: readonly ChangedBlock[], after: number, upTo: number): ChangedBlock[] =>
  blocks.filter(({ number }) => number > after && number <= upTo);

/**
 * Finds the position to which a reorg has taken a network back; null if all that was sent still holds. A block without
 * changes may have been replaced: nothing of it was sent.
 */
const findUndone = (
  chainId: number,
  position: Position,
  { head, blocks }: { head: number; blocks: readonly ChangedBlock[] },
): Position | null => {
  const { final, block, hash } = position;
  // An index that has fallen behind the reader's final block knows less than the reader.
  if (final === block || head < final) return null;
  const current = between(blocks, final, block);
  if (hashBlocks(current) === hash) return null;
  const common = position.blocks ? findLastCommonBlock(position.blocks, current) : final;
  const kept = between(current, final, common);
  return createPosition(chainId, { block: common, change: null, final, hash: hashBlocks(kept), blocks: kept });
};

/** Finds the last block up to which two lists are the same. They differ. */
const findLastCommonBlock = (a: readonly ChangedBlock[], b: readonly ChangedBlock[]): number => {
  const index = a.findIndex(({ number, digest }, index) => b[index]?.number !== number || b[index].digest !== digest);
  const place = index === -1 ? a.length : index;
  return Math.min(a[place]?.number ?? NO_BLOCK, b[place]?.number ?? NO_BLOCK) - 1;
};

const collect = (
  { chainId, position, toBlock = NO_BLOCK }: Asked,
  { rows, isComplete, blocks, reached }: Omit<Found, "block"> & { reached: ReachedBlock },
): Omit<NetworkChanges, "undoTo"> => {
  const known = position === "now" ? null : position;
  const final = Math.max(reached.finalized, known?.final ?? 0);
  const windows = new Map<number, Pick<Position, "final" | "hash" | "blocks">>();
  const createAt = (block: number, change: Position["change"]): Position => {
    let window = windows.get(block);
    if (!window) {
      const known = between(blocks, final, block);
      window = { final: Math.min(final, block), hash: hashBlocks(known), blocks: known };
      windows.set(block, window);
    }
    return createPosition(chainId, { block, change, ...window });
  };
  const changes = rows.map((row): ReadChange => {
    const { logIndex, ordinal } = row;
    const block = Number(row.blockNumber);
    return {
      row: Object.assign(row, { chainId }),
      position: createAt(block, { logIndex, ordinal }),
      isFinal: block <= reached.finalized,
    };
  });
  const lastRead = changes.at(-1)?.position ?? known;
  const listed = changes.filter(({ row }) => row.isListed);
  const end = Math.min(reached.number, toBlock);
  const read = { chainId, changes: listed, hasMore: !isComplete };
  // What was sent of a chain that is shorter after a reorg still holds.
  if (!isComplete || (known && end < known.block)) return { ...read, position: lastRead, reached: null };
  return { ...read, position: createAt(end, null), reached };
};
