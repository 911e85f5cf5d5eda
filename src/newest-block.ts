import { ponder } from "ponder:registry";
import { indexedBlock } from "ponder:schema";

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

  await context.db
    .insert(indexedBlock)
    .values({ chainId, number, hash, timestamp })
    .onConflictDoUpdate({ number, hash, timestamp });
});
