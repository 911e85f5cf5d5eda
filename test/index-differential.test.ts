import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { compileContracts } from "../sandbox/contracts.ts";
import { answersOfContracts, answersOfState, differences } from "./support/answers.ts";
import { dumpTables, readSnapshot, rebuildState } from "./support/index-state.ts";
import { chooseSeed, Random } from "./support/random.ts";
import { ReorgChain } from "./support/reorg-chain.ts";
import { connect, createChain, createDatabase, startIndexer, untilIndexed } from "./support/setup.ts";
import { createWorld, randomTransaction, type World } from "./support/world.ts";

// Two networks with both registries. Ponder takes their blocks for final after 30 more.
const CHAIN_IDS = [10, 8453];
const FINALITY = 30;

const ROUNDS = 40;
const REORGS = 26;
const SECONDS_TO_UNDO = 10;

type Subject = { chain: ReorgChain; world: World };

test("The index gives the registries' own answers after random operations and reorgs", { timeout: 600_000 }, async () => {
  const seed = chooseSeed();
  console.log(`Seed ${seed}; run it again with SEED=${seed} npx vitest run test/index-differential.test.ts`);
  const random = new Random(seed);
  const code = await compileContracts();
  const subjects: Subject[] = [];
  for (const chainId of CHAIN_IDS) {
    const local = await createChain(chainId);
    subjects.push({ chain: new ReorgChain(local), world: await createWorld(local, code) });
  }
  const tally = { operations: 0, reorgs: 0, blocksUndone: 0, answers: 0, pastBlocks: 0 };

  const mineRandomBlock = async ({ chain, world }: Subject) => {
    const payer = chain.local.accounts[0] ?? "0x";
    const transactions = Array.from({ length: random.integer(0, 5) }, () => randomTransaction(random, world, payer));
    await chain.mine(transactions);
    for (const { operations } of transactions) tally.operations += operations;
  };

  // Some history before the indexer starts, so that a part of it is backfilled.
  for (const subject of subjects) {
    for (let block = 0; block < FINALITY + 10; block++) await mineRandomBlock(subject);
  }

  const databaseUrl = await createDatabase();
  const database = await connect(databaseUrl);
  await startIndexer({ databaseUrl, chains: subjects.map(({ chain }) => chain.local) });

  const compare = async (blocksBack: readonly number[]) => {
    for (const subject of subjects) {
      const { chain, world } = subject;
      await untilIndexed(database, chain.local);
      const snapshot = await readSnapshot(databaseUrl, "registry", chain.local.chainId);
      if (!snapshot) throw new Error("The index says nothing.");
      const { block, state, log } = snapshot;

      const registries = await answersOfContracts(chain.local.url, world, block.number);
      tally.answers += registries.size;
      expect(differences(answersOfState(state, world), registries)).toEqual([]);
      // The log alone gives the same, and at past blocks what the registries answered then.
      expect(differences(answersOfState(rebuildState(log, block.number), world), registries)).toEqual([]);
      for (const back of blocksBack) {
        const past = block.number - BigInt(back);
        const then = await answersOfContracts(chain.local.url, world, past);
        tally.pastBlocks++;
        tally.answers += then.size;
        expect(differences(answersOfState(rebuildState(log, past), world), then)).toEqual([]);
      }
    }
  };
  await compare([]);

  const reorg = async (subject: Subject, isSeen: boolean) => {
    const { chain } = subject;
    const depth = random.integer(1, Math.min(10, chain.longestReorg));
    // Either the index has the blocks that are taken back, or it is anywhere on its way to them.
    if (isSeen) await untilIndexed(database, chain.local);
    else await sleep(random.integer(0, 400));
    await chain.takeBack(depth);
    for (let block = 0; block < depth + random.integer(0, 2); block++) await mineRandomBlock(subject);
    await untilIndexed(database, chain.local, { seconds: SECONDS_TO_UNDO });
    tally.reorgs++;
    tally.blocksUndone += depth;
  };

  for (let round = 0; round < ROUNDS; round++) {
    const subject = random.pick(subjects as [Subject, ...Subject[]]);
    for (let block = 0; block < random.integer(1, 3); block++) await mineRandomBlock(subject);
    if (round < REORGS) await reorg(subject, round % 4 !== 3);
    if (round === ROUNDS / 2) await compare([1, 5]);
  }
  await compare([1, 3, 12, 25]);

  // The same chains indexed from scratch, all of it as history: the same rows, the log included.
  for (const { chain } of subjects) {
    for (let block = 0; block < FINALITY + 1; block++) await chain.mine();
    await untilIndexed(database, chain.local);
  }
  const freshUrl = await createDatabase();
  const fresh = await connect(freshUrl);
  await startIndexer({ databaseUrl: freshUrl, chains: subjects.map(({ chain }) => chain.local) });
  for (const { chain } of subjects) await untilIndexed(fresh, chain.local);
  expect(await dumpTables(freshUrl, "registry")).toEqual(await dumpTables(databaseUrl, "registry"));

  console.log(tally);
  expect(tally.operations).toBeGreaterThanOrEqual(500);
  expect(tally.answers).toBeGreaterThanOrEqual(5000);
  expect(tally.reorgs).toBeGreaterThanOrEqual(20);
});

