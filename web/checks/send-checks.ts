import type { FetchFailure, FetchResult } from "../shared/fetch-json.ts";
import { type Answer, readAnswer } from "./answers.ts";
import type { AnswersJson } from "./json.ts";
import type { Check } from "./read-check.ts";

const MAX_CHECKS = 1_000;
/** Attempts in a row that are refused. */
const MAX_REFUSALS = 5;

/** Checks that the rate limit allows in a number of seconds. */
export type Pace = { checks: number; seconds: number };

export type Wait = { seconds: number; reason: string };

type SendOptions = {
  checks: readonly Check[];
  post: (checks: readonly Check[]) => Promise<FetchResult<AnswersJson>>;
  /** Called with the answers to checks[start] and the following. */
  onAnswers: (start: number, answers: readonly Answer[], pace: Pace | null) => void;
  wait: (wait: Wait) => Promise<void>;
  signal: AbortSignal;
};

/** Sends checks until all are answered, as fast as the rate limit allows. Returns the failure that ends it early. */
export const sendChecks = async (options: SendOptions): Promise<FetchFailure | null> => {
  const { checks, post, onAnswers, wait, signal } = options;
  // The first response tells the limit.
  let size = 1;
  let refusals = 0;
  for (let start = 0; start < checks.length; ) {
    const sent = checks.slice(start, start + size);
    const result = await post(sent);
    if (signal.aborted) return null;
    if (result.kind === "ok") {
      const limit = readRateLimit(result.headers);
      onAnswers(start, readAnswers(sent, result.value), limit?.pace ?? null);
      start += sent.length;
      refusals = 0;
      size = Math.min(MAX_CHECKS, limit?.remaining ?? MAX_CHECKS);
      if (limit && size === 0 && start < checks.length) {
        await wait({ seconds: limit.pace.seconds, reason: describePace(limit.pace) });
        size = Math.min(MAX_CHECKS, limit.pace.checks);
      }
    } else if ((result.kind === "rate-limited" || result.kind === "unavailable") && ++refusals < MAX_REFUSALS) {
      await wait({ seconds: Math.max(1, result.seconds || 1), reason: result.detail });
      // Other requests from this address may use a part of the limit.
      size = Math.ceil(size / 2);
    } else return result;
    if (signal.aborted) return null;
  }
  return null;
};

const readAnswers = (sent: readonly Check[], response: AnswersJson): Answer[] =>
  sent.map((check, place) => readAnswer(response.answers[place] ?? {}, check, response));

/** Reads the rate limit from a response; null if none applies. */
const readRateLimit = (headers: Headers): { remaining: number; pace: Pace } | null => {
  const remaining = /;r=(\d+)/.exec(headers.get("RateLimit") ?? "")?.[1];
  const [, checks, seconds] = /;q=(\d+);w=(\d+)/.exec(headers.get("RateLimit-Policy") ?? "") ?? [];
  if (!remaining || !checks || !seconds) return null;
  return { remaining: Number(remaining), pace: { checks: Number(checks), seconds: Number(seconds) } };
};

const describePace = ({ checks, seconds }: Pace): string =>
  `Without an API key, ${checks} checks are answered in ${seconds} s.`;
