import { ponder } from "ponder:registry";
import { indexedBlock } from "ponder:schema";
import { zeroHash } from "viem";
import { chainClient } from "../indexer/current-plan.ts";
import { canonicalHash } from "./canonical-hash.ts";
import { markLive, undecidedSince } from "./live-blocks.ts";

ponder.on("NewestBlock:block", async ({ event, context }) => {
  const chainId = context.chain.id;
  const { number, hash, parentHash, timestamp } = event.block;

  // Of a block that was left open, and of those that Ponder had fetched after it, nothing is said until
  // Ponder undoes them. If the node takes the first one back into its chain, Ponder never will.
  const open = undecidedSince(chainId, hash, parentHash);
  if (open && open.hash !== hash && (await canonicalHash(chainClient(chainId), open.number)) === open.hash) {
    throw new Error(
      `Block ${open.number} (${open.hash}) of chain ${chainId} was left open, and is on the chain again. A restart looks it up.`,
    );
  }

  // When fetching a fork's blocks fails half-way, Ponder forgets blocks whose rows it has not undone,
  // and could build on them. Better to stop: after a restart it undoes all that is not final.
  const newest = await context.db.find(indexedBlock, { chainId });
  const isLinked =
    newest === null ||
    open !== null ||
    newest.number < number - 1n ||
    (newest.number === number - 1n ? newest.hash === parentHash : newest.hash === hash);
  if (!isLinked) {
    throw new Error(
      `Block ${number} (${hash}) of chain ${chainId} does not follow the newest indexed block ${newest.number} (${newest.hash}): a reorg was not undone. A restart undoes it.`,
    );
  }

  markLive(chainId);
  const row = { number, hash: open ? zeroHash : hash, timestamp };
  await context.db
    .insert(indexedBlock)
    .values({ chainId, ...row })
    .onConflictDoUpdate(row);
});
