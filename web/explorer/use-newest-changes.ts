import { useCallback, useEffect, useState } from "preact/hooks";
import type { Network } from "../../client/src/index.ts";
import { countLabel } from "../shared/labels.ts";
import { type LiveEvent, useChanges } from "../shared/use-changes.ts";
import { usePolledJson } from "../shared/use-polled-json.ts";
import type { NewestChangeJson, NewestChangesJson } from "./json.ts";

const REFRESH_SECONDS = 60;
/** Changes that are shown. */
export const COUNT = 10;
/** Changes to keep: a reorg removes some of them. */
const KEPT = 100;

type Undo = { chainId: number; afterBlock: number; at: number };
/** `added` and `removed` count from the start: a screen reader says nothing if its text stays the same. */
type Live = { changes: NewestChangeJson[]; undos: Undo[]; added: number; removed: number };

const NOTHING: Live = { changes: [], undos: [], added: 0, removed: 0 };

/** The newest changes, as the service last listed them, with all that has come since then. */
export const useNewestChanges = (networks: readonly Network[]) => {
  const { value, ageSeconds, latest, retry } = usePolledJson<NewestChangesJson>("/insights/newest", REFRESH_SECONDS);
  const [live, setLive] = useState(NOTHING);
  const [readAt, setReadAt] = useState(0);
  useEffect(() => setReadAt(Date.now() - ageSeconds * 1000), [value, ageSeconds]);
  const nameOf = (chainId: number) => networks.find((network) => network.chainId === chainId)?.name ?? "";
  const apply = useCallback(
    (events: readonly LiveEvent[] | null) => {
      if (events) return setLive((live) => applyEvents(live, events, nameOf));
      setLive(NOTHING);
      retry();
    },
    [networks, retry],
  );
  const isLive = useChanges("", apply);

  // A list that was read before a reorg still has what it has removed.
  const undos = live.undos.filter(({ at }) => at > readAt);
  const listed = value?.newest.filter((change) => !isUndone(undos, change)) ?? [];
  const changes = new Map([...listed, ...live.changes].map((change) => [keyOf(change), change]));
  const newest = [...changes.values()].toSorted(newestFirst).slice(0, COUNT);
  const arrived = new Set(live.changes.map(keyOf));
  return {
    newest: value || newest.length > 0 ? newest : null,
    arrived,
    summary: summarize(live),
    isLive,
    latest,
    retry,
  };
};

const applyEvents = (live: Live, events: readonly LiveEvent[], nameOf: (chainId: number) => string): Live => {
  let { changes, undos, added, removed } = live;
  for (const event of events) {
    if ("change" in event) {
      const { change } = event;
      changes = [...changes, { ...change, network: nameOf(change.chainId) }];
      added++;
    } else {
      const undo = { ...event.undo, at: Date.now() };
      undos = [...undos, undo].slice(-KEPT);
      const kept = changes.filter((change) => !isUndone([undo], change));
      removed += changes.length - kept.length;
      changes = kept;
    }
  }
  return { changes: changes.slice(-KEPT), undos, added, removed };
};

const summarize = ({ added, removed }: Live): string => {
  const parts = [
    added > 0 && `${countLabel(added, "new change", "new changes")}.`,
    removed > 0 && `${countLabel(removed, "change was", "changes were")} undone.`,
  ];
  return parts.filter(Boolean).join(" ");
};

const isUndone = (undos: readonly Omit<Undo, "at">[], { chainId, blockNumber }: NewestChangeJson): boolean =>
  undos.some((undo) => undo.chainId === chainId && blockNumber > undo.afterBlock);

export const keyOf = ({ chainId, blockNumber, logIndex, ordinal }: NewestChangeJson): string =>
  [chainId, blockNumber, logIndex, ordinal].join();

/** As the service lists them: networks with the same time one after the other. */
const newestFirst = (a: NewestChangeJson, b: NewestChangeJson): number =>
  b.blockTimestamp - a.blockTimestamp ||
  a.chainId - b.chainId ||
  b.blockNumber - a.blockNumber ||
  b.logIndex - a.logIndex ||
  b.ordinal - a.ordinal;
