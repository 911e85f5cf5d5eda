import { useEffect, useRef, useState } from "preact/hooks";
import type { components } from "../../client/src/openapi.ts";
import { fetchJson } from "./fetch-json.ts";

export type LiveChange = components["schemas"]["Change"];

/** A reorg makes every change of a network after a block void. */
type Undo = { chainId: number; afterBlock: number };

export type LiveEvent = { change: LiveChange } | { undo: Undo };

/** After a refusal: the browser connects again by itself only when a connection breaks. */
const REOPEN_MS = 60_000;

/**
 * Follows live changes while the page is visible, from now on, and goes on where it was after a pause.
 *
 * @param query - filters of /changes; null: nothing to follow
 * @param apply - called with all that is new up to a block; with null if anything may have changed
 * @returns true while nothing is missed
 */
export const useChanges = (query: string | null, apply: (events: readonly LiveEvent[] | null) => void): boolean => {
  const [isLive, setLive] = useState(false);
  const latest = useRef(apply);
  latest.current = apply;
  useEffect(() => {
    if (query === null) return;
    let source: EventSource | null = null;
    let reopening = new AbortController();
    let cursor = "";
    const close = () => {
      reopening.abort();
      source?.close();
      source = null;
      setLive(false);
    };
    const buildPath = () => `/changes?finality=latest&${query}${cursor && `&cursor=${cursor}`}`;
    const open = () => {
      close();
      const opened = new EventSource(buildPath());
      source = opened;
      let events: LiveEvent[] = [];
      opened.addEventListener("change", ({ data }) => events.push({ change: JSON.parse(data) }));
      opened.addEventListener("undo", ({ data }) => events.push({ undo: JSON.parse(data) }));
      opened.addEventListener("progress", ({ lastEventId }) => {
        cursor = lastEventId;
        setLive(true);
        if (events.length > 0) latest.current(events);
        events = [];
      });
      opened.addEventListener("error", () => {
        setLive(false);
        if (opened.readyState !== EventSource.CLOSED) return;
        reopening = new AbortController();
        const { signal } = reopening;
        setTimeout(() => !signal.aborted && reopen(signal), REOPEN_MS);
      });
    };
    const reopen = async (signal: AbortSignal) => {
      // The browser does not tell why the service has refused: a page of the same has the same problem.
      const page = cursor && (await fetchJson(`${buildPath()}&limit=1`, { signal }));
      if (signal.aborted) return;
      if (page && page.kind === "bad-request") {
        // A service of another version cannot read the cursor.
        cursor = "";
        latest.current(null);
      }
      open();
    };
    const update = () => (document.hidden ? close() : open());
    update();
    document.addEventListener("visibilitychange", update);
    return () => {
      document.removeEventListener("visibilitychange", update);
      close();
    };
  }, [query]);
  return isLive;
};
