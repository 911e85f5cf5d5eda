import { useCallback, useEffect, useState } from "preact/hooks";
import { type FetchFailure, fetchJson } from "./fetch-json.ts";

type Page = { next: string | null };
type State<P> = { path: string; pages: P[]; failure: FetchFailure | null; isLoading: boolean };

/**
 * Reads a list page by page: the first page at once, each further one on `loadMore`. A failure keeps the pages read so
 * far, and `loadMore` tries again.
 *
 * @param path - without a cursor; null: nothing to fetch yet
 */
export const usePagedList = <P extends Page>(path: string | null) => {
  const [state, setState] = useState<State<P> | null>(null);
  const [request, setRequest] = useState<{ path: string; cursor: string | null; attempt: number } | null>(null);
  const current = state?.path === path ? state : null;

  useEffect(() => {
    setRequest(path === null ? null : { path, cursor: null, attempt: 0 });
  }, [path]);
  useEffect(() => {
    if (request === null) return;
    const { path, cursor } = request;
    const abort = new AbortController();
    setState((previous) => ({
      path,
      pages: previous?.path === path && cursor !== null ? previous.pages : [],
      failure: null,
      isLoading: true,
    }));
    const url = cursor === null ? path : `${path}&cursor=${encodeURIComponent(cursor)}`;
    void fetchJson<P>(url, { signal: abort.signal }).then((result) => {
      if (abort.signal.aborted) return;
      setState((previous) => {
        const pages = previous?.path === path ? previous.pages : [];
        return result.kind === "ok"
          ? { path, pages: [...pages, result.value], failure: null, isLoading: false }
          : { path, pages, failure: result, isLoading: false };
      });
    });
    return () => abort.abort();
  }, [request]);

  const pages = current?.pages ?? [];
  const next = pages.at(-1)?.next ?? null;
  const loadMore = useCallback(() => {
    if (path !== null) setRequest((previous) => ({ path, cursor: next, attempt: (previous?.attempt ?? 0) + 1 }));
  }, [path, next]);
  return { pages, next, loadMore, failure: current?.failure ?? null, isLoading: current?.isLoading ?? path !== null };
};
