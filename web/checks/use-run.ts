import { useRef, useState } from "preact/hooks";
import { type FetchFailure, fetchJson } from "../shared/fetch-json.ts";
import { type Answer, type Counts, countAnswers, createProblem, NO_ANSWERS } from "./answers.ts";
import type { AnswersJson } from "./json.ts";
import type { Options } from "./list-form.tsx";
import type { List } from "./read-list.ts";
import { type Pace, sendChecks, type Wait } from "./send-checks.ts";

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
  /** Null if no rate limit applies. */
  pace: Pace | null;
  wait: (Wait & { endsAt: number }) | null;
};

/** Answers a list. A run that was stopped, or failed, can go on. */
export const useRun = () => {
  const [run, setRun] = useState<Run | null>(null);
  const abort = useRef<AbortController | null>(null);

  const send = async (started: Run, apiKey: string): Promise<void> => {
    const { list, block, answers } = started;
    abort.current = new AbortController();
    const { signal } = abort.current;
    let run: Run = { ...started, state: "running" };
    const update = (changes: Partial<Run>) => {
      run = { ...run, ...changes };
      setRun(run);
    };
    update({});
    const places = [...list.rows.keys()].filter((place) => !answers[place]);
    const failure = await sendChecks({
      checks: places.flatMap((place) => list.rows[place]?.check ?? []),
      signal,
      post: (checks) =>
        fetchJson<AnswersJson>("/registry/checks", {
          method: "POST",
          body: { checks, block: block || undefined },
          apiKey,
          signal,
        }),
      onAnswers: (start, received, pace) => {
        for (const [index, place] of places.slice(start, start + received.length).entries()) {
          answers[place] = received[index];
        }
        update({ answered: run.answered + received.length, counts: countAnswers(run.counts, received), pace });
      },
      wait: async (wait) => {
        update({ wait: { ...wait, endsAt: Date.now() + wait.seconds * 1000 } });
        await sleep(wait.seconds * 1000, signal);
        update({ wait: null });
      },
    });
    update({ state: signal.aborted ? "stopped" : (failure ?? "done") });
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
    pace: null,
    wait: null,
  };
};

/** Waits, or until it is aborted. */
const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, ms);
    signal.addEventListener("abort", () => resolve());
  });
