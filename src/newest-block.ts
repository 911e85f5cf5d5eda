import { ponder } from "ponder:registry";
import { indexedBlock } from "ponder:schema";
import { zeroHash } from "viem";
import { markLive, takeUndecided } from "./live-blocks.ts";

ponder.on("NewestBlock:block", async ({ event, context }) => {
  const chainId = context.chain.id;
  const { number, hash, parentHash, timestamp } = event.block;

  // When fetching a fork's blocks fails half-way, Ponder forgets blocks whose rows it has not undone,
  // and could build on them. Better to stop: after a restart it undoes all that is not final.
  const newest = await context.db.find(indexedBlock, { chainId });
  const isLinked =
    newest === null ||
    newest.number < number - 1n ||
    (newest.number === number - 1n ? newest.hash === parentHash : newest.hash === hash);
  if (!isLinked) {
    throw new Error(
      `Block ${number} (${hash}) of chain ${chainId} does not follow the newest indexed block ${newest.number} (${newest.hash}): a reorg was not undone. A restart undoes it.`,
    );
  }

  markLive(chainId);
  // No block follows this hash: either a reorg undoes the block that was left open, or the next one stops.
  const row = { number, hash: takeUndecided(hash) ? zeroHash : hash, timestamp };
  await context.db
    .insert(indexedBlock)
    .values({ chainId, ...row })
    .onConflictDoUpdate(row);
});
