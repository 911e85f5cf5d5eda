import { setTimeout as sleep } from "node:timers/promises";
import { formatQuestion, listQuestions } from "../../support/answers.ts";
import { buildCheckPath, buildListPath, readLists } from "../../support/api-answers.ts";
import type { Random } from "../../support/random.ts";
import type { RandomChain } from "../../support/random-chain.ts";
import type { ExpectedAnswers } from "./expected-answers.ts";

const PAUSE_MS = 25;
/** The API reports any unreachable part well before this timeout. */
const LONGEST_MS = 15_000;

/** A response: its block, and its answers by question. */
type Reply = { chainId: number; path: string; number: bigint; timestamp: bigint; answers: [string, string][] };

type DrawnRequest = { chainId: number; path: string; read: (body: string) => [string, string][] };

/** A client that sends random checks and lists, and compares each answer with the registries at its block. */
export class Reader {
  readonly #expected: ExpectedAnswers;
  readonly #url: string;
  readonly #random: Random;
  readonly #chains: readonly [RandomChain, ...RandomChain[]];
  /** Returns if the API was down at any time since. */
  readonly #wasDown: (since: number) => boolean;
  /** Answers for blocks whose expected answers are not recorded yet. */
  #open: Reply[] = [];
  #isOver = false;
  readonly differences: string[] = [];
  readonly counts = { right: 0, refused: 0, unreached: 0 };

  constructor(
    expected: ExpectedAnswers,
    chains: readonly [RandomChain, ...RandomChain[]],
    random: Random,
    api: { url: string; wasDown: (since: number) => boolean },
  ) {
    [this.#expected, this.#chains, this.#random] = [expected, chains, random];
    [this.#url, this.#wasDown] = [api.url, api.wasDown];
  }

  /** Sends requests until stop() is called. */
  async run(): Promise<void> {
    for (; !this.#isOver; await sleep(PAUSE_MS)) await this.#ask(this.#drawRequest());
  }

  stop() {
    this.#isOver = true;
  }

  /** Compares the answers for blocks that were not recorded when the answers arrived. */
  settle() {
    const open = this.#open;
    this.#open = [];
    for (const reply of open) this.#compare(reply);
    for (const { path, number } of this.#open) this.differences.push(`${path}: block ${number} never existed.`);
  }

  #drawRequest(): DrawnRequest {
    const { world, local } = this.#random.pick(this.#chains);
    const { chainId } = local;
    if (this.#random.chance(0.3)) {
      const { address } = this.#random.pick(world.wallets);
      const version = this.#random.pick(["v1", "v2"] as const);
      return {
        chainId,
        path: buildListPath(version, address, chainId),
        read: (body) => readLists(version, address, body),
      };
    }
    const questions = listQuestions(world);
    const index = this.#random.integer(0, questions.length - 1);
    const question = questions[index];
    if (!question) throw new Error("The world has no questions.");
    return {
      chainId,
      path: buildCheckPath(question, chainId, index),
      read: (body) => [[formatQuestion(question), body]],
    };
  }

  async #ask({ chainId, path, read }: DrawnRequest): Promise<void> {
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

  #compare(reply: Reply) {
    const { chainId, path, number, timestamp, answers } = reply;
    const expected = this.#expected.find(chainId, number, timestamp);
    if (!expected) {
      this.#open.push(reply);
      return;
    }
    for (const [question, answer] of answers) {
      if (expected.get(question) === answer) this.counts.right++;
      else {
        this.differences.push(
          `${path} at block ${number} (${timestamp}): ${question}: ${answer}, but the registry said ${expected.get(question)}`,
        );
      }
    }
  }
}
