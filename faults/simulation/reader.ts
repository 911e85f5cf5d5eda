import { setTimeout as sleep } from "node:timers/promises";
import { createClient, type RegistryClient, RegistryError } from "../../client/src/index.ts";
import { type Answers, deriveAnswers, formatQuestion, listQuestions } from "../../test/support/answers.ts";
import { formatRegistryList, readList } from "../../test/support/api-answers.ts";
import type { State } from "../../test/support/index-state.ts";
import type { Random } from "../../test/support/random.ts";
import type { RandomChain } from "../../test/support/random-chain.ts";
import type { Stack } from "../stack.ts";

const PAUSE_MS = 25;
/** The API reports any unreachable part well before this timeout. */
const LONGEST_MS = 15_000;

/** Identifies a block, including one that the chain has replaced since. */
const keyOf = (chainId: number, number: unknown, timestamp: unknown) =>
  `chain ${chainId}, block ${number} (${timestamp})`;

/** Answers by question, and the block that they name. */
type Reply = { block: string; answers: [string, string][] };

/** A client that sends random checks and lists, and compares each answer with the registries at its block. */
export class Reader {
  readonly #stack: Stack;
  readonly #random: Random;
  readonly #chains: readonly [RandomChain, ...RandomChain[]];
  readonly #client: RegistryClient;
  /** Headers of the newest response. */
  #headers = new Headers();
  /** The registries' state at every block so far, and the answers that follow from it. */
  readonly #states = new Map<string, { state: State; chain: RandomChain; answers?: Answers }>();
  /** Replies that name blocks which are not recorded yet. */
  #open: Reply[] = [];
  #isOver = false;
  readonly differences: string[] = [];
  readonly counts = { right: 0, refused: 0, unreached: 0 };

  constructor(stack: Stack, chains: readonly [RandomChain, ...RandomChain[]], random: Random) {
    [this.#stack, this.#chains, this.#random] = [stack, chains, random];
    const recordHeaders: typeof fetch = async (...request) => {
      const response = await fetch(...request);
      this.#headers = response.headers;
      return response;
    };
    const options = { batch: false, retries: 0, timeoutMs: LONGEST_MS, fetch: recordHeaders };
    this.#client = createClient({ url: `http://127.0.0.1:${stack.ports[0]}`, ...options });
  }

  /** Records the registries' state at a chain's newest block, and returns its number. */
  async record(chain: RandomChain): Promise<bigint> {
    const { number, timestamp } = await chain.local.client.getBlock();
    this.#states.set(keyOf(chain.local.chainId, number, timestamp), { state: await chain.readState(number), chain });
    return number;
  }

  /** Sends requests until stop() is called. */
  async run(): Promise<void> {
    for (; !this.#isOver; await sleep(PAUSE_MS)) await this.#askOnce();
  }

  stop() {
    this.#isOver = true;
  }

  /** Compares the replies whose blocks were not recorded when they arrived. */
  settle() {
    for (const reply of this.#open) {
      if (!this.#compare(reply)) this.differences.push(`An answer names ${reply.block}, which never existed.`);
    }
    this.#open = [];
  }

  async #askOnce(): Promise<void> {
    const startedAt = Date.now();
    const chain = this.#random.pick(this.#chains);
    try {
      const answers = await this.#ask(chain);
      const [number, timestamp] = ["X-Indexed-Block", "X-Indexed-Block-Timestamp"].map((name) =>
        this.#headers.get(name),
      );
      const reply = { block: keyOf(chain.local.chainId, number, timestamp), answers };
      if (!this.#compare(reply)) this.#open.push(reply);
    } catch (error) {
      if (!(error instanceof RegistryError)) throw error;
      // An API that is killed has `upSince` in the future.
      const wasDown = startedAt <= (this.#stack.apis[0]?.upSince ?? 0);
      if (error.status === 503 && error.problem?.status === 503) this.counts.refused++;
      else if (error.status === null && wasDown) this.counts.unreached++;
      else this.differences.push(`No answer after ${Date.now() - startedAt} ms: ${error.message}`);
    }
  }

  async #ask({ world, local: { chainId } }: RandomChain): Promise<[string, string][]> {
    if (this.#random.chance(0.3)) {
      const { address } = this.#random.pick(world.wallets);
      const version = this.#random.pick(["v1", "v2"] as const);
      return formatRegistryList(version, address, await readList(this.#client, version, address, { chainId }));
    }
    const [first, ...others] = listQuestions(world);
    if (!first) throw new Error("The world has no questions.");
    const question = this.#random.pick([first, ...others]);
    const { value } = await this.#client.check({ ...question, chainId });
    return [[formatQuestion(question), String(value)]];
  }

  /** @returns false if the block of the reply is not recorded */
  #compare({ block, answers }: Reply): boolean {
    const recorded = this.#states.get(block);
    if (!recorded) return false;
    recorded.answers ??= deriveAnswers(recorded.state, recorded.chain.world);
    for (const [question, answer] of answers) {
      const expected = recorded.answers.get(question);
      if (expected === answer) this.counts.right++;
      else this.differences.push(`${question} at ${block}: ${answer}, but the registry said ${expected}`);
    }
    return true;
  }
}
