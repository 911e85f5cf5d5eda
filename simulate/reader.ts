import { setTimeout as sleep } from "node:timers/promises";
import { questionsOf, textOf } from "../test/support/answers.ts";
import { checkPath, listPath, readLists } from "../test/support/api-answers.ts";
import type { Random } from "../test/support/random.ts";
import type { RandomChain } from "../test/support/random-chain.ts";
import type { Truth } from "./truth.ts";

const PAUSE_MS = 25;
/** Whatever is out of reach, the API says so well before. */
const LONGEST_MS = 15_000;

/** An answer, by the questions that it answers, at the block that it names. */
type Told = { chainId: number; path: string; number: bigint; timestamp: bigint; answers: [string, string][] };

type Question = { chainId: number; path: string; read: (body: string) => [string, string][] };

/** A client that asks one question after the other, and takes no answer that is wrong at the block that it names. */
export class Reader {
  readonly #truth: Truth;
  readonly #url: string;
  readonly #random: Random;
  readonly #chains: readonly [RandomChain, ...RandomChain[]];
  /** Whether the API was away at some moment since a time. */
  readonly #wasDown: (since: number) => boolean;
  /** About blocks that are so new that the truth is not noted yet. */
  #open: Told[] = [];
  #isOver = false;
  readonly differences: string[] = [];
  readonly counts = { right: 0, refused: 0, unreached: 0 };

  constructor(
    truth: Truth,
    chains: readonly [RandomChain, ...RandomChain[]],
    random: Random,
    api: { url: string; wasDown: (since: number) => boolean },
  ) {
    [this.#truth, this.#chains, this.#random] = [truth, chains, random];
    [this.#url, this.#wasDown] = [api.url, api.wasDown];
  }

  /** Asks until it is told to stop. */
  async run(): Promise<void> {
    for (; !this.#isOver; await sleep(PAUSE_MS)) await this.#ask(this.#drawQuestion());
  }

  stop() {
    this.#isOver = true;
  }

  /** Compares the answers about blocks whose truth was not noted when they came. */
  settle() {
    const open = this.#open;
    this.#open = [];
    for (const told of open) this.#compare(told);
    for (const { path, number } of this.#open) this.differences.push(`${path}: block ${number} never was.`);
  }

  #drawQuestion(): Question {
    const { world, local } = this.#random.pick(this.#chains);
    const { chainId } = local;
    if (this.#random.chance(0.3)) {
      const { address } = this.#random.pick(world.wallets);
      const version = this.#random.pick(["v1", "v2"] as const);
      return { chainId, path: listPath(version, address, chainId), read: (body) => readLists(version, address, body) };
    }
    const questions = questionsOf(world);
    const index = this.#random.integer(0, questions.length - 1);
    const question = questions[index];
    if (!question) throw new Error("There is nothing to ask.");
    return { chainId, path: checkPath(question, chainId, index), read: (body) => [[textOf(question), body]] };
  }

  async #ask({ chainId, path, read }: Question): Promise<void> {
    const startedAt = Date.now();
    try {
      const response = await fetch(`${this.#url}/registry/${path}`, { signal: AbortSignal.timeout(LONGEST_MS) });
      const body = await response.text();
      if (response.status !== 200) return this.#takeRefusal(path, response, body);
      const [number, timestamp] = ["X-Indexed-Block", "X-Indexed-Block-Timestamp"].map((name) =>
        BigInt(response.headers.get(name) ?? -1),
      );
      this.#compare({ chainId, path, number: number ?? -1n, timestamp: timestamp ?? -1n, answers: read(body) });
    } catch (error) {
      if (this.#wasDown(startedAt)) this.counts.unreached++;
      else this.differences.push(`${path}: no answer after ${Date.now() - startedAt} ms: ${error}`);
    }
  }

  #takeRefusal(path: string, response: Response, body: string) {
    const isProblem = response.headers.get("Content-Type")?.startsWith("application/problem+json");
    if (response.status === 503 && isProblem && JSON.parse(body).status === 503) this.counts.refused++;
    else this.differences.push(`${path}: ${response.status} ${body}`);
  }

  #compare(told: Told) {
    const { chainId, path, number, timestamp, answers } = told;
    const truth = this.#truth.find(chainId, number, timestamp);
    if (!truth) {
      this.#open.push(told);
      return;
    }
    for (const [question, answer] of answers) {
      if (truth.get(question) === answer) this.counts.right++;
      else {
        this.differences.push(
          `${path} at block ${number} (${timestamp}): ${question}: ${answer}, but the registry said ${truth.get(question)}`,
        );
      }
    }
  }
}
