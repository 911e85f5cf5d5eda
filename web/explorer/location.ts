import { useEffect, useState } from "preact/hooks";

// The address of the page holds all that is shown: it can be shared, and back and forward work.

export type View = "in" | "out" | "history" | "check";

const VIEWS: readonly View[] = ["in", "out", "history", "check"];

/** The parameters of the address, as they are now. */
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

export const viewOf = (query: URLSearchParams): View => VIEWS.find((view) => view === query.get("view")) ?? "in";

/** The address of a view. What is empty is left out. */
export const addressOf = (values: Record<string, string | number | null | undefined>): string => {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return given.length === 0 ? "/" : `/?${query}`;
};

/** Goes to an address of this page, without loading it again. */
export const go = (address: string): void => {
  history.pushState(null, "", address);
  dispatchEvent(new PopStateEvent("popstate"));
};

/** Links to this page do not load it again, wherever they stand. */
const followLink = (event: MouseEvent): void => {
  const { target, button, metaKey, ctrlKey, shiftKey, altKey, defaultPrevented } = event;
  const link = target instanceof Element ? target.closest("a") : null;
  if (!link || defaultPrevented || button !== 0 || metaKey || ctrlKey || shiftKey || altKey) return;
  if (link.origin !== location.origin || link.pathname !== location.pathname || link.hash || link.target) return;
  event.preventDefault();
  go(link.href);
};
