import { useCallback, useEffect, useState } from "preact/hooks";
import { type FetchResult, fetchJson } from "./fetch-json.ts";

/** The last good value with its age, and the result of the last request. */
type Polled<Value> = { value: Value | null; ageSeconds: number; latest: FetchResult<Value> | null };

const NOTHING = { value: null, ageSeconds: 0, latest: null };

/** Fetches a path at an interval while the page is visible. `retry` fetches at once. */
export const usePolledJson = <Value>(path: string, seconds: number): Polled<Value> & { retry: () => void } => {
  const [polled, setPolled] = useState<Polled<Value>>(NOTHING);
  const [attempt, setAttempt] = useState(0);
  // A stable function: a new one would restart the countdown that calls it.
  const retry = useCallback(() => setAttempt((attempt) => attempt + 1), []);
  useEffect(() => {
    const abort = new AbortController();
    void fetchJson<Value>(path, { signal: abort.signal }).then((latest) => {
      if (abort.signal.aborted) return;
      setPolled(({ value, ageSeconds }) =>
        latest.kind === "ok"
          ? { value: latest.value, ageSeconds: Number(latest.headers.get("Age") ?? 0), latest }
          : { value, ageSeconds: ageSeconds + seconds, latest },
      );
    });
    const timer = setInterval(() => document.visibilityState === "visible" && retry(), seconds * 1000);
    return () => {
      abort.abort();
      clearInterval(timer);
    };
  }, [path, seconds, attempt]);
  return { ...polled, retry };
};
