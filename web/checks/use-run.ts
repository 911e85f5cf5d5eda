import { useRef, useState } from "preact/hooks";
import type { Check, Limit } from "../../client/src/index.ts";
import type { FetchFailure } from "../shared/fetch-json.ts";
import { createRegistry, toBlock, toFailure } from "../shared/registry.ts";
import {
  type Answer,
  type Counts,
  countAnswers,
  createProblem,
  NO_ANSWERS,
  readAnswer,
  readProblem,
} from "./answers.ts";
import type { Options } from "./list-form.tsx";
import type { List } from "./read-list.ts";

export type Wait = { reason: string; endsAt: number };

/** The answers to a list so far. */
export type Run = {
  list: List;
  block: string;
  /** By row. Filled in place: a copy for each response would take quadratic time. */
  answers: (Answer | undefined)[];
  counts: Counts;
  /** Checks that are answered, and all. */
  answered: number;
  total: number;
  state: "running" | "stopped" | "done" | FetchFailure;
  /** The rate limit; null if none applies, or if it is not reached yet. */
  limit: Limit | null;
  wait: Wait | null;
};

/** Answers a list. A run that was stopped, or failed, can go on. */
export const useRun = () => {
  const [run, setRun] = useState<Run | null>(null);
  const abort = useRef<AbortController | null>(null);

  const send = async (started: Run, apiKey: string): Promise<void> => {
    const { list, block, answers } = started;
    const controller = new AbortController();
    abort.current = controller;
    const { signal } = controller;
    let run: Run = { ...started, state: "running", wait: null };
    const update = (changes: Partial<Run>) => {
      run = { ...run, ...changes };
      setRun(run);
    };
    update({});
    const registry = createRegistry({
      apiKey: apiKey || undefined,
      onWait: ({ ms, error, limit }) => {
        const reason = limit ? describeLimit(limit) : (error?.message ?? "");
        update({ wait: { reason, endsAt: Date.now() + ms }, limit: limit ?? run.limit });
      },
    });
    let failure: FetchFailure | null = null;
    const ask = async (place: number, check: Check): Promise<void> => {
      try {
        const answer = await registry.check(check, { block: toBlock(block), signal }).then(readAnswer, (error) => {
          return readProblem(error) ?? Promise.reject(error);
        });
        if (signal.aborted) return;
        answers[place] = answer;
        update({ answered: run.answered + 1, counts: countAnswers(run.counts, [answer]) });
      } catch (error) {
        if (signal.aborted) return;
        failure = toFailure(error);
        controller.abort();
      }
    };
    // All at once: the client sends as many together as it may.
    await Promise.all(list.rows.map(({ check }, place) => (check && !answers[place] ? ask(place, check) : undefined)));
    update({ state: failure ?? (signal.aborted ? "stopped" : "done") });
  };

  return {
    run,
    start: (list: List, { block, apiKey }: Options) => void send(createRun(list, block), apiKey),
    goOn: (apiKey: string) => void (run && send(run, apiKey)),
    stop: () => abort.current?.abort(),
  };
};

const createRun = (list: List, block: string): Run => {
  const answers = list.rows.map(({ problem }) => (problem === null ? undefined : createProblem(problem)));
  const problems = answers.filter((answer) => answer !== undefined);
  return {
    list,
    block,
    answers,
    counts: countAnswers(NO_ANSWERS, problems),
    answered: 0,
    total: answers.length - problems.length,
    state: "running",
    limit: null,
    wait: null,
  };
};

const describeLimit = ({ quota, windowMs }: Limit): string =>
  `Without an API key, ${quota} checks are answered in ${windowMs / 1000} s.`;
