import { type Answers, deriveAnswers, findDifferences } from "./answers.ts";
import type { Api } from "./api.ts";
import { Fold, openStream, type StreamEvent } from "./changes.ts";
import type { Random } from "./random.ts";
import type { ComparedChain } from "./random-chain.ts";

// Readers of live changes, which are compared with the registries.

type Reached = { number: number; answers: Answers };

/** The registries' answers at each block, on every fork that there was. */
export class Forks {
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
export class Follower {
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
    readonly chainId: number,
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
    this.fold.apply(event, this.chainId);
    if (event.event !== "progress") return;
    const reached = event.data.blocks[this.chainId]?.number;
    // The registries do not exist yet at block 0, which is final before any other.
    if (!reached) return;
    this.newest = reached;
    this.reached.push({ number: reached, answers: this.forks.readAnswers(this.fold) });
  }
}
