import { useEffect, useState } from "preact/hooks";
import type { Address, ScopeOptions } from "../../client/src/index.ts";
import { toInteger } from "../shared/registry.ts";

// The page's URL holds its whole state: any view can be shared, and back and forward work.

export type WalletViewName = "in" | "out" | "history";

type ViewName = WalletViewName | "check";

const VIEW_NAMES: readonly ViewName[] = ["in", "out", "history", "check"];

/** The page's current query parameters. */
export const useQuery = (): URLSearchParams => {
  const [search, setSearch] = useState(location.search);
  useEffect(() => {
    const update = () => setSearch(location.search);
    addEventListener("popstate", update);
    document.addEventListener("click", followLink);
    return () => {
      removeEventListener("popstate", update);
      document.removeEventListener("click", followLink);
    };
  }, []);
  return new URLSearchParams(search);
};

/** What a list of a wallet is limited to. */
export type Filter = { contract: string; tokenId: string; rights: string; block: string; time: string };

const FILTER_NAMES = ["contract", "tokenId", "rights", "block", "time"] as const;

export const readFilter = (query: URLSearchParams): Filter =>
  Object.fromEntries(FILTER_NAMES.map((name) => [name, query.get(name)?.trim() ?? ""])) as Filter;

/** What a question is about, for the client. */
export const toScope = ({ contract, tokenId, rights }: Omit<Filter, "block" | "time">): ScopeOptions => ({
  contract: contract === "" ? undefined : toAddress(contract),
  tokenId: tokenId === "" ? undefined : toInteger("tokenId", tokenId),
  rights: rights || undefined,
});

/** The service explains a bad address. */
export const toAddress = (text: string): Address => text as Address;

export const readViewName = (query: URLSearchParams): ViewName =>
  VIEW_NAMES.find((name) => name === query.get("view")) ?? "in";

/** Builds the URL of a view, without parameters that are empty. */
export const buildUrl = (parameters: Record<string, string | number | null | undefined>): string => {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== "") query.append(name, String(value));
  }
  return `${query}` === "" ? "/" : `/?${query}`;
};

/** Goes to a URL of this page without reloading it. */
export const navigate = (url: string): void => {
  history.pushState(null, "", url);
  dispatchEvent(new PopStateEvent("popstate"));
};

/** Handles clicks on links to this page without reloading it. */
const followLink = (event: MouseEvent): void => {
  const { target, button, metaKey, ctrlKey, shiftKey, altKey, defaultPrevented } = event;
  const link = target instanceof Element ? target.closest("a") : null;
  if (!link || defaultPrevented || button !== 0 || metaKey || ctrlKey || shiftKey || altKey) return;
  if (link.origin !== location.origin || link.pathname !== location.pathname || link.hash || link.target) return;
  event.preventDefault();
  navigate(link.href);
};
