import { useCallback, useEffect, useState } from "preact/hooks";
import type { FetchFailure } from "./fetch-json.ts";

export type Answer<Value> = { kind: "ok"; value: Value } | FetchFailure;

/**
 * Asks a question once; `result` is null while the request is in flight. `retry` discards the result and asks again.
 * `refresh` asks again and keeps the last good result if that fails.
 *
 * @param question - names it: another name is another question; null: nothing to ask yet
 */
export const useAnswer = <Value>(question: string | null, ask: (signal: AbortSignal) => Promise<Answer<Value>>) => {
  const [state, setState] = useState<{ question: string; result: Answer<Value> } | null>(null);
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    if (question === null) return;
    const abort = new AbortController();
    void ask(abort.signal).then((result) => {
      if (abort.signal.aborted) return;
      setState((previous) =>
        result.kind !== "ok" && previous?.question === question && previous.result.kind === "ok"
          ? previous
          : { question, result },
      );
    });
    return () => abort.abort();
  }, [question, attempt]);
  const refresh = useCallback(() => setAttempt((attempt) => attempt + 1), []);
  const retry = useCallback(() => {
    setState(null);
    refresh();
  }, [refresh]);
  return { result: state?.question === question ? state.result : null, retry, refresh };
};
