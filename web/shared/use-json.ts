import { useCallback, useEffect, useState } from "preact/hooks";
import { type FetchResult, fetchJson } from "./fetch-json.ts";

type State<Value> = { path: string; result: FetchResult<Value> };

/**
 * Fetches a path once; `result` is null while the request is in flight. `retry` discards the result and fetches again.
 * `refresh` fetches again and keeps the last good result if that fails.
 *
 * @param path - null: nothing to fetch yet
 */
export const useJson = <Value>(path: string | null) => {
  const [state, setState] = useState<State<Value> | null>(null);
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    if (path === null) return;
    const abort = new AbortController();
    void fetchJson<Value>(path, { signal: abort.signal }).then((result) => {
      if (abort.signal.aborted) return;
      setState((previous) =>
        result.kind !== "ok" && previous?.path === path && previous.result.kind === "ok" ? previous : { path, result },
      );
    });
    return () => abort.abort();
  }, [path, attempt]);
  const refresh = useCallback(() => setAttempt((attempt) => attempt + 1), []);
  const retry = useCallback(() => {
    setState(null);
    refresh();
  }, [refresh]);
  return { result: state?.path === path ? state.result : null, retry, refresh };
};
