import { useCallback, useEffect, useState } from "preact/hooks";
import { type Answer, ask } from "../shared/ask.ts";

/** What a page shows of an answer that it asks for again and again: the last good one, and what came after it. */
type Latest<Value> = { value: Value | null; ageSeconds: number; newest: Answer<Value> | null };

const NOTHING = { value: null, ageSeconds: 0, newest: null };

/** The answer to a question, asked again after so many seconds while the page is looked at. `again` asks at once. */
export const useLatest = <Value>(path: string, seconds: number): Latest<Value> & { again: () => void } => {
  const [latest, setLatest] = useState<Latest<Value>>(NOTHING);
  const [times, setTimes] = useState(0);
  // Always the same: what waits to call it would start anew with another.
  const again = useCallback(() => setTimes((times) => times + 1), []);
  useEffect(() => {
    const asking = new AbortController();
    void ask<Value>(path, { signal: asking.signal }).then((newest) => {
      if (asking.signal.aborted) return;
      setLatest(({ value, ageSeconds }) =>
        newest.kind === "answered"
          ? { value: newest.value, ageSeconds: Number(newest.headers.get("Age") ?? 0), newest }
          : { value, ageSeconds: ageSeconds + seconds, newest },
      );
    });
    const timer = setInterval(() => document.visibilityState === "visible" && again(), seconds * 1000);
    return () => {
      asking.abort();
      clearInterval(timer);
    };
  }, [path, seconds, times]);
  return { ...latest, again };
};
