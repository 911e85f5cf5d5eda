import { useCallback, useEffect, useState } from "preact/hooks";
import { type Answer, ask } from "./ask.ts";

type State<Value> = { path: string; answer: Answer<Value> };

/**
 * The answer to a question, asked once for each path; null while it is under way. `again` forgets the answer and asks
 * once more, `refresh` keeps it until there is a better one.
 *
 * @param path - null: there is nothing to ask yet
 */
export const useAnswer = <Value>(path: string | null) => {
  const [state, setState] = useState<State<Value> | null>(null);
  const [times, setTimes] = useState(0);
  useEffect(() => {
    if (path === null) return;
    const asking = new AbortController();
    void ask<Value>(path, { signal: asking.signal }).then((answer) => {
      // Somebody has asked something else meanwhile.
      if (asking.signal.aborted) return;
      setState((before) =>
        answer.kind !== "answered" && before?.path === path && before.answer.kind === "answered"
          ? before
          : { path, answer },
      );
    });
    return () => asking.abort();
  }, [path, times]);
  const refresh = useCallback(() => setTimes((times) => times + 1), []);
  const again = useCallback(() => {
    setState(null);
    refresh();
  }, [refresh]);
  return { answer: state?.path === path ? state.answer : null, again, refresh };
};
