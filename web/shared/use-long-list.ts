import { useCallback, useEffect, useState } from "preact/hooks";
import { type Answer, ask, type Failure } from "./ask.ts";

type Page = { next: string | null };
type State<P> = { path: string; pages: P[]; failure: Failure | null; isLoading: boolean };

/**
 * A list that is read page by page: the first at once, each further one when it is asked for. A failure keeps what was
 * read, and `more` tries again.
 *
 * @param path - without a cursor; null: there is nothing to ask yet
 */
export const useLongList = <P extends Page>(path: string | null) => {
  const [state, setState] = useState<State<P> | null>(null);
  const [asked, setAsked] = useState<{ path: string; cursor: string | null; times: number } | null>(null);
  const current = state?.path === path ? state : null;

  useEffect(() => {
    setAsked(path === null ? null : { path, cursor: null, times: 0 });
  }, [path]);
  useEffect(() => {
    if (asked === null) return;
    const { path, cursor } = asked;
    const asking = new AbortController();
    setState((before) => ({
      path,
      pages: before?.path === path && cursor !== null ? before.pages : [],
      failure: null,
      isLoading: true,
    }));
    const url = cursor === null ? path : `${path}&cursor=${encodeURIComponent(cursor)}`;
    void ask<P>(url, { signal: asking.signal }).then((answer: Answer<P>) => {
      if (asking.signal.aborted) return;
      setState((before) => {
        const pages = before?.path === path ? before.pages : [];
        return answer.kind === "answered"
          ? { path, pages: [...pages, answer.value], failure: null, isLoading: false }
          : { path, pages, failure: answer, isLoading: false };
      });
    });
    return () => asking.abort();
  }, [asked]);

  const pages = current?.pages ?? [];
  const next = pages.at(-1)?.next ?? null;
  const more = useCallback(() => {
    if (path !== null) setAsked((before) => ({ path, cursor: next, times: (before?.times ?? 0) + 1 }));
  }, [path, next]);
  return { pages, next, more, failure: current?.failure ?? null, isLoading: current?.isLoading ?? path !== null };
};
