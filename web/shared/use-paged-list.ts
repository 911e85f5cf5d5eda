import { useCallback, useEffect, useState } from "preact/hooks";
import type { RegistryClient, WalletList, WalletPage } from "../../client/src/index.ts";
import type { FetchFailure } from "./fetch-json.ts";
import { createAsker, readPage, toFailure } from "./registry.ts";

type State<Row> = { name: string; pages: WalletPage<Row>[]; failure: FetchFailure | null; isLoading: boolean };

type FromPage = { cursor?: string; signal: AbortSignal };

/**
 * Reads a list page by page: the first page at once, each further one on `loadMore`. A failure keeps the pages read so
 * far, and `loadMore` tries again.
 *
 * @param name - another name is another list
 */
export const usePagedList = <Row>(
  name: string,
  list: (registry: RegistryClient, from: FromPage) => WalletList<Row>,
) => {
  const [state, setState] = useState<State<Row> | null>(null);
  const [request, setRequest] = useState<{ name: string; cursor: string | null } | null>(null);
  const current = state?.name === name ? state : null;

  useEffect(() => setRequest({ name, cursor: null }), [name]);
  useEffect(() => {
    if (request === null) return;
    const { name, cursor } = request;
    const abort = new AbortController();
    setState((previous) => ({
      name,
      pages: previous?.name === name && cursor !== null ? previous.pages : [],
      failure: null,
      isLoading: true,
    }));
    const settle = (added: WalletPage<Row>[], failure: FetchFailure | null) => {
      if (abort.signal.aborted) return;
      setState((previous) => {
        const pages = previous?.name === name ? previous.pages : [];
        return { name, pages: [...pages, ...added], failure, isLoading: false };
      });
    };
    const read = async () =>
      readPage(list(createAsker(), { signal: abort.signal, ...(cursor !== null && { cursor }) }));
    void read().then(
      (page) => settle([page], null),
      (error) => settle([], toFailure(error)),
    );
    return () => abort.abort();
  }, [request]);

  const pages = current?.pages ?? [];
  const next = pages.at(-1)?.next ?? null;
  const loadMore = useCallback(() => setRequest({ name, cursor: next }), [name, next]);
  return { pages, next, loadMore, failure: current?.failure ?? null, isLoading: current?.isLoading ?? true };
};
