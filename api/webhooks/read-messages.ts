import { encodeChangeCursor, parseChangeCursor } from "../changes/change-cursor.ts";
import type { ChangeFeed } from "../changes/change-feed.ts";
import { showLiveChange } from "../changes/change-stream.ts";
import { ROWS_ALONE, rowsToRead } from "../changes/filters.ts";
import { Problem } from "../problem.ts";
import type { Shards } from "../shards/shards.ts";
import { inSlices } from "../slices.ts";
import { findNetworks } from "../wallets/wallet-parameters.ts";
import type { DueWebhook, NewMessage } from "./deliveries.ts";

type ReadMessages = {
  messages: NewMessage[];
  /** The cursor after all of them, and after changes that the webhook is not told of. */
  after: string;
  hasMore: boolean;
  /** Networks that could not be answered for. */
  unanswered: number[];
};

/** Reads the next messages of a webhook, some 100 at most: per network, in the order of its log. */
export const readMessages = async (
  { feed, shards }: { feed: ChangeFeed; shards: Shards },
  { filters, finality, chainIds, cursor }: Pick<DueWebhook, "filters" | "finality" | "chainIds" | "cursor">,
): Promise<ReadMessages> => {
  const parsed = parseChangeCursor(cursor);
  if (!parsed) throw new Error("The cursor of a webhook cannot be read.");
  const { question, since, positions, unknown } = parsed;
  // Networks that are not known at the moment keep their place.
  const texts = new Map([...positions].map(([chainId, { text }]) => [chainId, text]));
  const chains = findNetworks(shards, { chainId: [...chainIds], registry: filters.registry });
  const asked = chains.map((chainId) => ({ chainId, position: positions.get(chainId) ?? null }));
  const rows = rowsToRead(filters);
  const found = await feed.readAlone("webhooks", { filters, finality, since, rows }, () => asked);

  const read: ReadMessages = { messages: [], after: cursor, hasMore: false, unanswered: [] };
  const moveTo = (chainId: number, text: string): string => {
    texts.set(chainId, text);
    read.after = encodeChangeCursor(question, since, [...texts.values(), ...unknown]);
    return read.after;
  };
  for (const [{ chainId }, changes] of found) {
    if (changes instanceof Problem) {
      read.unanswered.push(chainId);
      continue;
    }
    if (changes.undoTo) {
      const data = { chainId, afterBlock: changes.undoTo.block };
      const after = moveTo(chainId, changes.undoTo.text);
      read.messages.push(createMessage("delegation.undone", Date.now(), data, after));
    }
    const next = changes.changes.slice(0, Math.max(0, ROWS_ALONE - read.messages.length));
    await inSlices(next, (change) => {
      const data = showLiveChange(change);
      const after = moveTo(chainId, change.position.text);
      read.messages.push(createMessage("delegation.changed", data.blockTimestamp * 1000, data, after));
    });
    if (next.length < changes.changes.length) {
      read.hasMore = true;
      break;
    }
    if (changes.position) moveTo(chainId, changes.position.text);
    read.hasMore ||= changes.hasMore;
  }
  return read;
};

/** @param at - when it happened: a message is the same in each attempt */
const createMessage = (type: string, at: number, data: object, after: string): NewMessage => ({
  type,
  body: JSON.stringify({ type, timestamp: new Date(at).toISOString(), data }),
  after,
});
