import { type Context, type Event, ponder } from "ponder:registry";
import { indexedBlock } from "ponder:schema";
import { zeroHash } from "viem";
import { getChainClient, getChainRpc } from "../indexer/current-plan.ts";
import { type BlockId, getChainProgress } from "./chain-progress.ts";
import { fetchCanonicalHash } from "./fetch-canonical-hash.ts";

type Block = Event<"NewestBlock:block">["block"];

ponder.on("NewestBlock:block", async ({ event, context }) => {
  const { number, hash, parentHash, timestamp } = event.block;
  const unresolved = getChainProgress(context).findUnresolved(hash, parentHash);
  if (unresolved && unresolved.hash !== hash) await requireReplaced(context, unresolved);
  await requireNextBlock(context, event.block, unresolved !== null);
  requireLogs(context, event.block);

  // Publish no freshness for an unresolved block or its descendants until Ponder reverts them.
  const row = { number, hash: unresolved ? zeroHash : hash, timestamp };
  await context.db
    .insert(indexedBlock)
    .values({ chainId: context.chain.id, ...row })
    .onConflictDoUpdate(row);
});

/** Throws if the node has an unresolved block on its chain again: Ponder would never revert it. */
const requireReplaced = async ({ chain }: Context, { number, hash }: BlockId) => {
  if ((await fetchCanonicalHash(getChainClient(chain.id), number)) !== hash) return;
  throw new Error(
    `Block ${number} (${hash}) of chain ${chain.id} was unresolved, and is on the chain again. A restart resolves it.`,
  );
};

/** Throws if logs of a block were missed. The next start fetches them. */
const requireLogs = (context: Context, { number, hash }: Block) => {
  const missed = getChainRpc(context.chain.id).findMissedBlock(getChainProgress(context).startLive(number), hash);
  if (!missed) return;
  throw new Error(
    `Logs of block ${BigInt(missed.number)} of chain ${context.chain.id} were missed: the block's bloom filter lacks them. A restart fetches them.`,
  );
};

/**
 * Throws unless a block follows the newest indexed one. After a restart Ponder begins at the newest final block.
 * - When the connection breaks during a commit, Ponder retries, but its memory has the rows of the failed attempt: this
 *   block is the newest already, and its changes were skipped for the same reason (readPosition in change-log.ts).
 * - When fetching a fork's blocks fails half-way, Ponder forgets blocks whose rows it has not reverted, and could build
 *   on them.
 *
 * Rows that Postgres itself has lost are not visible here, because Ponder has its own copy in memory;
 * IndexerDatabase.guardCommits() detects them. A query from here would be a transaction within Ponder's, which Ponder
 * retries for a minute when the connection is gone.
 */
const requireNextBlock = async (context: Context, { number, hash, parentHash }: Block, isUnresolved: boolean) => {
  const chainId = context.chain.id;
  const first = getChainProgress(context).startLive(number);
  const newest = await context.db.find(indexedBlock, { chainId });
  if (newest?.hash === hash) {
    throw new Error(
      `Block ${number} of chain ${chainId} was indexed twice: its commit may have failed. A restart continues from the stored rows.`,
    );
  }
  const isNext = newest ? newest.number === number - 1n && newest.hash === parentHash : number === first;
  if (!isUnresolved && !isNext) {
    throw new Error(
      `Block ${number} (${hash}) of chain ${chainId} does not follow the newest indexed block, ${newest ? `${newest.number} (${newest.hash})` : "which does not exist"}: a reorg was not reverted. A restart reverts it.`,
    );
  }
};
