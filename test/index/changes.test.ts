import { expect } from "vitest";
import { type Answers, deriveAnswers, findDifferences } from "../support/answers.ts";
import type { Api } from "../support/api.ts";
import { launchApi, startTestApi } from "../support/api.ts";
import { Fold, openStream, readChangesPage, type StreamEvent } from "../support/changes.ts";
import { createRandomChain } from "../support/indexed-chain.ts";
import { type Random, seededRandom } from "../support/random.ts";
import type { ComparedChain } from "../support/random-chain.ts";
import { connectClient, createDatabase, startIndexer, waitUntil, waitUntilIndexed } from "../support/setup.ts";
import { test } from "../support/test.ts";

const CHAIN = 8453;
/** Ponder treats blocks as final after 30 more. */
const FINALITY = 30;
const ROUNDS = 10;

type Reached = { number: number; answers: Answers };

/** The registries' answers at each block, on every fork that there was. */
class Forks {
  readonly #subject: ComparedChain;
  readonly #answers = new Map<number, Map<string, Map<string, string>>>();

  constructor(subject: ComparedChain) {
    this.#subject = subject;
  }

  /** Asks the registries at blocks of the chain as it is now. */
  async record(from: number): Promise<number> {
    const { client } = this.#subject.local;
    const newest = Number(await client.getBlockNumber());
    for (let number = Math.max(from, 1); number <= newest; number++) {
      const { hash } = await client.getBlock({ blockNumber: BigInt(number) });
      const forks = this.#answers.get(number) ?? new Map();
      this.#answers.set(number, forks);
      if (!forks.has(hash)) forks.set(hash, await this.#subject.askRegistries(BigInt(number), []));
    }
    return newest;
  }

  /** Derives the answers of the delegations that a reader has. */
  readAnswers(fold: Fold): Answers {
    return deriveAnswers(fold.readState(), this.#subject.world, []);
  }

  /** Compares them with the registries' own at a block of any fork. */
  compare({ number, answers }: Reached): string[] {
    const forks = [...(this.#answers.get(number)?.values() ?? [])];
    const found = forks.map((expected) => findDifferences(answers, expected, `block ${number}`));
    return found.find((differences) => differences.length === 0) ?? found[0] ?? [`block ${number} was never there`];
  }
}

/** A reader that loses its connection now and then, right after any event, and goes on at another API. */
class Follower {
  readonly fold = new Fold();
  readonly reached: Reached[] = [];
  newest = -1;
  connections = 0;
  failure: unknown;
  #isOver = false;
  #id: string | undefined;

  constructor(
    readonly query: string,
    readonly random: Random,
    readonly apis: () => readonly [Pick<Api, "get">, ...Pick<Api, "get">[]],
    readonly forks: Forks,
  ) {}

  start(): void {
    this.#follow().catch((error) => {
      this.failure = error;
    });
  }

  stop(): void {
    this.#isOver = true;
  }

  async #follow(): Promise<void> {
    while (!this.#isOver) {
      const stream = await openStream(this.random.pick(this.apis()), this.query, this.#id).catch(() => null);
      if (!stream) continue;
      this.connections++;
      for await (const event of stream.events) {
        this.#apply(event);
        if (this.#isOver || this.random.chance(0.05)) break;
      }
      stream.close();
    }
  }

  #apply(event: StreamEvent): void {
    this.#id = event.id;
    this.fold.apply(event, CHAIN);
    if (event.event !== "progress") return;
    const reached = event.data.blocks[CHAIN]?.number;
    // The registries do not exist yet at block 0, which is final before any other.
    if (!reached) return;
    this.newest = reached;
    this.reached.push({ number: reached, answers: this.forks.readAnswers(this.fold) });
  }
}

test("a stream has exactly the registries' delegations after each progress, through reorgs, lost connections and restarts", {
  timeout: 300_000,
}, async () => {
  const random = seededRandom(import.meta.filename);
  const subject = await createRandomChain(CHAIN, 7, 20);
  const databaseUrl = await createDatabase();
  const database = await connectClient(databaseUrl);
  await startIndexer({ databaseUrl, chains: [subject.local] });
  await waitUntilIndexed(database, subject.local);
  const forks = new Forks(subject);
  let newest = await forks.record(1);

  const kept = await startTestApi({ databaseUrl });
  let restarted = await launchApi({ databaseUrl });
  const apis = () => [kept, restarted] as const;
  const query = `?chainId=${CHAIN}&cursor=start`;
  const latest = new Follower(`${query}&finality=latest`, random, apis, forks);
  const final = new Follower(query, random, apis, forks);
  for (const follower of [latest, final]) follower.start();

  /** Pages of the same: asked for once a round. */
  const polled = new Fold();
  let cursor = "start";
  const poll = async () => {
    for (;;) {
      const page = await readChangesPage(kept, `?chainId=${CHAIN}&finality=latest&limit=7&cursor=${cursor}`);
      for (const undo of page.undo) polled.undo(undo);
      for (const change of page.changes) polled.change(change);
      cursor = page.next;
      const reached = page.blocks[CHAIN]?.number;
      if (reached === undefined) continue;
      polled.progress(reached);
      expect(forks.compare({ number: reached, answers: forks.readAnswers(polled) })).toEqual([]);
      return;
    }
  };

  for (let round = 0; round < ROUNDS; round++) {
    await subject.mineRandomBlocks(random.integer(1, 4));
    newest = await forks.record(newest);
    if (random.chance(0.5)) await waitUntilIndexed(database, subject.local);
    const depth = random.integer(1, 8);
    await subject.chain.revertBlocks(depth);
    await subject.mineRandomBlocks(depth + random.integer(0, 2));
    newest = await forks.record(newest - depth);
    await waitUntilIndexed(database, subject.local);
    await poll();
    if (round % 3 === 1) {
      await restarted.stop();
      restarted = await launchApi({ databaseUrl });
    }
  }
  await subject.mineRandomBlocks(2 * FINALITY);
  newest = await forks.record(newest);
  await waitUntilIndexed(database, subject.local);
  await waitUntil("the reader has the newest block", () => {
    if (latest.failure ?? final.failure) throw latest.failure ?? final.failure;
    return latest.newest === newest;
  });
  await waitUntil("the other reader has a final block", () => final.newest > newest - 2 * FINALITY);
  await poll();
  for (const follower of [latest, final]) follower.stop();
  await restarted.stop();

  for (const { reached } of [latest, final]) {
    expect(reached.flatMap((each) => forks.compare(each))).toEqual([]);
    expect(reached.length).toBeGreaterThan(1);
  }
  expect(final.fold.undos).toBe(0);
  expect(latest.fold.undos).toBeGreaterThan(0);
  expect(polled.undos).toBeGreaterThan(0);
  expect(polled.changes).toEqual(
    latest.fold.changes.map((change) => expect.objectContaining({ ...change, final: expect.any(Boolean) })),
  );
  console.log({
    connections: [latest.connections, final.connections],
    progress: [latest.reached.length, final.reached.length],
    undos: [latest.fold.undos, polled.undos],
    changes: [latest.fold.changes.length, final.fold.changes.length],
  });
});
