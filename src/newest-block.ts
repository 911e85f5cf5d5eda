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

  // When the connection breaks during a commit, Ponder tries again, and its memory has what the failed attempt wrote:
  // this block is the newest already, and its changes were left out for the same reason (positionOf in change-log.ts).
  // When fetching a fork's blocks fails half-way, Ponder forgets blocks whose rows it has not undone, and could build
  // on them. Better to stop: after a restart it begins at what is final. What Postgres itself may have lost is not seen
  // here, where Ponder has its own copy in memory, but in IndexerDatabase.guardStore(): a query of ours would be a
  // transaction within Ponder's, which it tries for a minute when the connection is gone.
  const first = markLive(chainId, number);
  const newest = await context.db.find(indexedBlock, { chainId });
  if (newest?.hash === hash) {
    throw new Error(
      `Block ${number} of chain ${chainId} was indexed, and may not have been stored. A restart finds out.`,
    );
  }
  const isNext = newest ? newest.number === number - 1n && newest.hash === parentHash : number === first;
  if (!open && !isNext) {
    throw new Error(
      `Block ${number} (${hash}) of chain ${chainId} does not follow the newest indexed block, ${newest ? `${newest.number} (${newest.hash})` : "of which there is none"}: a reorg was not undone. A restart puts it right.`,
    );
  }

  const row = { number, hash: open ? zeroHash : hash, timestamp };
  await context.db
    .insert(indexedBlock)
    .values({ chainId, ...row })
    .onConflictDoUpdate(row);
});
