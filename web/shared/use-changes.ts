import { useEffect, useRef, useState } from "preact/hooks";
import type { components } from "../../client/src/openapi.ts";

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
 * @param apply - called with all that is new up to a block
 * @returns true while nothing is missed
 */
export const useChanges = (query: string | null, apply: (events: readonly LiveEvent[]) => void): boolean => {
  const [isLive, setLive] = useState(false);
  const latest = useRef(apply);
  latest.current = apply;
  useEffect(() => {
    if (query === null) return;
    let source: EventSource | null = null;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let cursor = "";
    const close = () => {
      clearTimeout(timer);
      source?.close();
      source = null;
      setLive(false);
    };
    const open = () => {
      close();
      const opened = new EventSource(`/changes?finality=latest&${query}${cursor && `&cursor=${cursor}`}`);
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
        // A service of another version may refuse the cursor.
        cursor = "";
        timer = setTimeout(open, REOPEN_MS);
      });
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
