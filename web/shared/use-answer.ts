import { useEffect, useState } from "preact/hooks";
import { type Answer, ask } from "./ask.ts";

type State<Value> = { path: string; answer: Answer<Value> };

/**
 * The answer to a question, asked once for each path; null while it is under way. `again` asks once more.
 *
 * @param path - null: there is nothing to ask yet
 */
export const useAnswer = <Value>(path: string | null): { answer: Answer<Value> | null; again: () => void } => {
  const [state, setState] = useState<State<Value> | null>(null);
  const [times, setTimes] = useState(0);
  useEffect(() => {
    if (path === null) return;
    const asking = new AbortController();
    void ask<Value>(path, { signal: asking.signal }).then((answer) => {
      // Somebody has asked something else meanwhile.
      if (!asking.signal.aborted) setState({ path, answer });
    });
    return () => asking.abort();
  }, [path, times]);
  return {
    answer: state?.path === path ? state.answer : null,
    again: () => {
      setState(null);
      setTimes((times) => times + 1);
    },
  };
};
