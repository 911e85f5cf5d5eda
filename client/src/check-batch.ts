import { orAborted } from "./abortable.ts";
import { type AnsweredBlock, readBlock, readBlockHeaders } from "./block.ts";
import { type AtBlock, isBalance, type Question, toBlockParameters } from "./questions.ts";
import { fromProblem, notAnAnswer, type Problem, RegistryError } from "./registry-error.ts";
import type { JsonResponse, Transport } from "./transport.ts";

export type Answer = { value: boolean | bigint; block: AnsweredBlock };

type Waiting = {
  question: Question;
  resolve: (answer: Answer) => void;
  reject: (error: unknown) => void;
  tries: number;
  signal: AbortSignal | undefined;
};

type AnswersJson = {
  answers: { result?: boolean | string; problem?: Problem }[];
  blocks: Record<string, { number: number; final: boolean }>;
};

/** The most checks that one request may have. Without a key, a body may have 32,768 bytes: a check has at most 520. */
const MAX_CHECKS = 1_000;
const MAX_CHECKS_WITHOUT_KEY = 60;

/** Sends checks that are asked in the same tick as one request. Each fails alone. */
export class CheckBatch {
  readonly #transport: Transport;
  readonly #retries: number;
  readonly #isBatched: boolean;
  readonly #maxChecks: number;
  /** By the block that they ask about. */
  #waiting = new Map<string, { at: AtBlock; checks: Waiting[] }>();

  constructor(transport: Transport, { retries, batch, hasKey }: { retries: number; batch: boolean; hasKey: boolean }) {
    this.#transport = transport;
    this.#retries = retries;
    this.#isBatched = batch;
    this.#maxChecks = hasKey ? MAX_CHECKS : MAX_CHECKS_WITHOUT_KEY;
  }

  ask(question: Question, at: AtBlock, signal: AbortSignal | undefined): Promise<Answer> {
    const answer = new Promise<Answer>((resolve, reject) =>
      this.#add({ question, resolve, reject, tries: 0, signal }, at),
    );
    return orAborted(answer, signal);
  }

  #add(check: Waiting, at: AtBlock): void {
    const { block, minBlock } = toBlockParameters(at);
    // A block number is another time on each network.
    const isOfNetwork = minBlock !== undefined || (block !== undefined && block !== "finalized");
    const key = [block, minBlock, isOfNetwork && check.question.chainId].join();
    if (this.#waiting.size === 0) setTimeout(() => this.#flush(), 0);
    const group = this.#waiting.get(key) ?? { at, checks: [] };
    this.#waiting.set(key, group);
    group.checks.push(check);
  }

  #flush(): void {
    const groups = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { at, checks } of groups) {
      if (this.#isBatched) void this.#send(checks, at);
      else for (const check of checks) void this.#send([check], at);
    }
  }

  /** Sends one request after another: the service answers few at a time for one caller. */
  async #send(checks: readonly Waiting[], at: AtBlock): Promise<void> {
    for (let rest = checks; rest.length > 0; ) {
      const wanted = rest.filter(({ signal }) => !signal?.aborted);
      try {
        rest = wanted.slice(await this.#sendSome(wanted, at));
      } catch (error) {
        for (const { reject } of wanted) reject(error);
        return;
      }
    }
  }

  /** Sends as many as one request may have. Returns their number. */
  async #sendSome(checks: readonly Waiting[], at: AtBlock): Promise<number> {
    const [first] = checks;
    if (!first) return 0;
    const isOfAll = checks.every(({ signal }) => signal === first.signal);
    const signal = isOfAll ? first.signal : undefined;
    if (checks.length === 1) {
      // A single check is a GET: a browser sends it without asking first.
      const response = await this.#transport.send({ path: buildPath(first.question, at), signal });
      first.resolve(readSingle(first.question, at, response));
      return 1;
    }
    let sent = checks;
    const { json } = await this.#transport.send({
      path: "/registry/checks",
      body: (granted) => {
        sent = checks.slice(0, granted);
        return { checks: sent.map(({ question }) => question), ...toBlockParameters(at) };
      },
      cost: Math.min(checks.length, this.#maxChecks),
      signal,
    });
    const { answers, blocks } = (json ?? {}) as Partial<AnswersJson>;
    if (!Array.isArray(answers) || answers.length !== sent.length || !blocks) throw notAnAnswer(json);
    const again: Waiting[] = [];
    let reason: RegistryError | undefined;
    for (const [place, check] of sent.entries()) {
      const problem = this.#settle(check, at, answers[place] ?? {}, blocks);
      if (!problem) continue;
      again.push(check);
      reason ??= problem;
    }
    if (reason) void this.#askAgain(again, at, reason, signal);
    return sent.length;
  }

  /** Returns the problem of a check that is to be asked again. */
  #settle(
    check: Waiting,
    at: AtBlock,
    { result, problem }: AnswersJson["answers"][number],
    blocks: AnswersJson["blocks"],
  ): RegistryError | undefined {
    try {
      if (problem) throw fromProblem(problem);
      const { number, final } = blocks[check.question.chainId] ?? {};
      check.resolve({ value: readValue(check.question, result), block: readBlock(at, number, final) });
    } catch (error) {
      if (error instanceof RegistryError && error.isRetryable && check.tries++ < this.#retries) return error;
      check.reject(error);
    }
    return undefined;
  }

  /** Together, so that they are one request again. */
  async #askAgain(
    checks: readonly Waiting[],
    at: AtBlock,
    error: RegistryError,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const ms = 1_000 * 2 ** (checks[0]?.tries ?? 0) * (0.5 + Math.random());
    try {
      await this.#transport.wait({ ms, error, limit: null }, signal);
      for (const check of checks) this.#add(check, at);
    } catch (reason) {
      for (const { reject } of checks) reject(reason);
    }
  }
}

const buildPath = ({ registry, check, ...parameters }: Question, at: AtBlock): string => {
  const query = new URLSearchParams({
    ...Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, String(value)])),
    ...(isBalance(check) && { numbers: "string" }),
    ...toBlockParameters(at),
  });
  return `/registry/${registry}/check/${check}?${query}`;
};

const readSingle = (question: Question, at: AtBlock, { json, headers }: JsonResponse): Answer => ({
  value: readValue(question, json),
  block: readBlockHeaders(at, headers),
});

const readValue = ({ check }: Question, value: unknown): boolean | bigint => {
  if (isBalance(check) ? typeof value === "string" && /^\d+$/.test(value) : typeof value === "boolean") {
    return isBalance(check) ? BigInt(value as string) : (value as boolean);
  }
  throw notAnAnswer(value);
};
