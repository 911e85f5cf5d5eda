import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import type { ChangeFeed } from "../changes/change-feed.ts";
import { isAsked } from "../changes/change-stream.ts";
import type { Finality } from "../changes/filters.ts";
import type { NetworkChanges } from "../changes/read-changes.ts";
import type { Database } from "../database/database.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { Problem } from "../problem.ts";
import type { Shards } from "../shards/shards.ts";
import {
  beginDelivery,
  type Delivery,
  findDueWebhook,
  type ListedWebhook,
  listAskedDeliveries,
  listDueWebhooks,
  type Receiver,
  saveCursor,
  settleAskedDelivery,
  settleDelivery,
} from "./deliveries.ts";
import { Lease } from "./lease.ts";
import { News } from "./news.ts";
import { readMessages } from "./read-messages.ts";
import type { Outcome, Send } from "./send-message.ts";
import { signMessage } from "./sign-message.ts";
import { generateMessageId, pruneDeliveries } from "./webhooks.ts";

/** How often the worker looks for webhooks that are new, due or paused, and for deliveries that were asked for. */
const TICK_MS = 1_000;
/** Even without news each webhook reads its part of the log, so that its cursor does not stay far behind. */
const SWEEP_MS = 600_000;
/** Webhooks that are served at a time, one message each. */
const PLACES = 64;
/** As many of them may be failing: a silent receiver takes its place for 10 s. */
const PLACES_FOR_FAILING = 16;
/** Time for messages in flight when the process stops. */
const STOP_MS = 4_000;

type WorkerOptions = {
  database: Database;
  shards: Shards;
  feed: ChangeFeed;
  send: Send;
  load: Metrics["webhooks"];
  log: Logger;
};

/** Sends the messages of all webhooks, in one process at a time. It holds nothing that the database does not have. */
export class WebhookWorker {
  readonly #options: WorkerOptions;
  readonly #lease: Lease;
  readonly #webhooks = new Map<string, ListedWebhook>();
  /** Webhooks that may have something to read. */
  readonly #news = new Set<string>();
  /** Webhooks that are being served, and messages that were asked for. */
  readonly #busy = new Map<string, Promise<void>>();
  /** When a webhook was last served: the others come first. */
  readonly #servedAt = new Map<string, number>();
  readonly #followers = new Map<Finality, News>();
  #sweptAt = 0;
  /** Aborted when this process loses its right to send. */
  #sending = new AbortController();
  readonly #stopping = new AbortController();
  #running = Promise.resolve();

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#lease = new Lease(options.database);
  }

  start(): void {
    this.#running = this.#run();
  }

  /** Finishes the messages in flight, for a while, and lets another process take over at once. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
    const inFlight = Promise.all(this.#busy.values());
    await Promise.race([inFlight, sleep(STOP_MS, undefined, { ref: false })]);
    this.#drop();
    await inFlight;
    await this.#lease.release().catch(() => {});
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        if (await this.#lease.take()) await this.#refresh();
        else this.#drop();
      } catch (error) {
        this.#report(error);
        if (!this.#lease.isHeld) this.#drop();
      }
      await sleep(TICK_MS, undefined, { signal }).catch(() => {});
    }
  }

  async #refresh(): Promise<void> {
    const { database, load } = this.#options;
    const listed = await listDueWebhooks(database);
    const known = new Set(this.#webhooks.keys());
    this.#webhooks.clear();
    for (const webhook of listed) {
      this.#webhooks.set(webhook.id, webhook);
      if (!known.delete(webhook.id)) this.#news.add(webhook.id);
    }
    for (const id of known) {
      this.#news.delete(id);
      this.#servedAt.delete(id);
    }
    const now = performance.now();
    if (now - this.#sweptAt > SWEEP_MS) {
      this.#sweptAt = now;
      for (const id of this.#webhooks.keys()) this.#news.add(id);
    }
    load.webhooks = countStates(listed);
    load.lagSeconds = Math.max(
      0,
      ...listed.map(({ isPaused, waitedSeconds }) => (isPaused ? 0 : (waitedSeconds ?? 0))),
    );
    this.#follow(new Set(listed.flatMap(({ isPaused, finality }) => (isPaused ? [] : finality))));
    for (const asked of await listAskedDeliveries(database)) this.#occupy(asked.deliveryId, () => this.#answer(asked));
    this.#serve();
  }

  #follow(wanted: ReadonlySet<Finality>): void {
    const { feed, shards } = this.#options;
    for (const [finality, follower] of this.#followers) {
      if (wanted.has(finality)) continue;
      follower.close();
      this.#followers.delete(finality);
    }
    for (const finality of wanted) {
      if (this.#followers.has(finality)) continue;
      const onNews = (chainId: number, changes: NetworkChanges | null) => this.#hear(finality, chainId, changes);
      this.#followers.set(finality, new News({ feed, shards, finality, onNews }));
    }
  }

  /** Notes which webhooks have to be told. */
  #hear(finality: Finality, chainId: number, changes: NetworkChanges | null): void {
    const isAll = changes === null || changes.undoTo !== null;
    for (const { id, filters, chainIds, finality: theirs } of this.#webhooks.values()) {
      if (theirs !== finality || (chainIds.length > 0 && !chainIds.includes(chainId))) continue;
      if (isAll || changes.changes.some((change) => isAsked(filters, change))) this.#news.add(id);
    }
    this.#serve();
  }

  /** Starts with the webhooks that have waited longest, as far as there are places. */
  #serve(): void {
    if (!this.#lease.isHeld || this.#stopping.signal.aborted) return;
    const inFlight = [...this.#webhooks.values()].filter(({ id }) => this.#busy.has(id));
    let places = PLACES - inFlight.length;
    let placesForFailing = PLACES_FOR_FAILING - inFlight.filter(({ isFailing }) => isFailing).length;
    const due = [...this.#webhooks.values()]
      .filter(({ id, isPaused, isDue, waitedSeconds }) => {
        const hasWork = waitedSeconds !== null || this.#news.has(id);
        return hasWork && !isPaused && isDue && !this.#busy.has(id);
      })
      .toSorted((a, b) => (this.#servedAt.get(a.id) ?? 0) - (this.#servedAt.get(b.id) ?? 0));
    for (const webhook of due) {
      if (places <= 0) return;
      if (webhook.isFailing && placesForFailing-- <= 0) continue;
      places--;
      this.#occupy(webhook.id, () => this.#advance(webhook));
    }
  }

  #occupy(name: string, work: () => Promise<void>): void {
    if (this.#busy.has(name)) return;
    const working = work()
      .catch((error) => this.#report(error))
      .finally(() => {
        this.#busy.delete(name);
        this.#serve();
      });
    this.#busy.set(name, working);
  }

  /** Sends what a webhook has to be told: the message that waits, or the next ones of the log. */
  async #advance(webhook: ListedWebhook): Promise<void> {
    const { id } = webhook;
    this.#servedAt.set(id, performance.now());
    // Until the next look at the table, unless all went well.
    webhook.isDue = false;
    // Before the log is read: what comes then is news again.
    this.#news.delete(id);
    try {
      const isDone = await this.#sendAll(id);
      if (!isDone) this.#news.add(id);
      webhook.isDue = true;
      webhook.isFailing = false;
      webhook.waitedSeconds = null;
    } catch (error) {
      this.#news.add(id);
      if (!(error instanceof NotNow)) throw error;
    }
  }

  /** @returns false if there is more. Throws NotNow if the rest has to wait. */
  async #sendAll(id: string): Promise<boolean> {
    const { database, feed } = this.#options;
    const webhook = await findDueWebhook(database, id);
    if (!webhook) throw new NotNow();
    let { cursor } = webhook;
    if (webhook.pending) {
      await this.#deliver(webhook, webhook.pending);
      cursor = webhook.pending.after;
    }
    const { messages, after, hasMore, unanswered } = await readMessages(this.#options, { ...webhook, cursor });
    for (const message of messages) {
      const begun = await beginDelivery(database, { ...message, id, messageId: generateMessageId(), before: cursor });
      if (!begun) throw new NotNow();
      await this.#deliver(begun, begun);
      cursor = message.after;
    }
    if (after !== cursor) await saveCursor(database, { id, before: cursor, after });
    if (messages.length > 0) await pruneDeliveries(database, id);
    // Can be answered for by now: its return is no news any more.
    if (unanswered.some((chainId) => feed.findHead(webhook.finality, chainId)?.reached)) throw new NotNow();
    return !hasMore;
  }

  async #deliver(receiver: Receiver, delivery: Delivery): Promise<void> {
    const { database, log } = this.#options;
    const outcome = await this.#post(receiver, delivery);
    const settled = await settleDelivery(database, delivery, outcome);
    if (settled?.pausedReason) log.warn({ webhook: receiver.id, reason: settled.pausedReason }, "A webhook is paused");
    if (!settled || !outcome.isDelivered) throw new NotNow();
  }

  /** Sends a test, or a message again. */
  async #answer(asked: Receiver & Delivery): Promise<void> {
    await settleAskedDelivery(this.#options.database, asked, await this.#post(asked, asked));
  }

  async #post({ url, secrets }: Receiver, { messageId, body }: Delivery): Promise<Outcome> {
    const { send, load } = this.#options;
    // Between two messages the process may have lost its right.
    if (!this.#lease.isHeld || this.#stopping.signal.aborted) throw new NotNow();
    const { signal } = this.#sending;
    const outcome = await send({ url, body, headers: signMessage(secrets, { messageId, body }) }, signal).catch(
      (error) => {
        throw signal.aborted ? new NotNow() : error;
      },
    );
    load.deliveries[outcome.isDelivered ? "delivered" : outcome.status === null ? "unanswered" : "refused"]++;
    return outcome;
  }

  /** Sends nothing more: another process may. */
  #drop(): void {
    const { load } = this.#options;
    if (load.webhooks === null) return;
    this.#sending.abort();
    this.#sending = new AbortController();
    this.#webhooks.clear();
    this.#news.clear();
    this.#follow(new Set());
    load.webhooks = null;
    load.lagSeconds = 0;
  }

  #report(error: unknown): void {
    // The database logs that it is unreachable.
    if (error instanceof Problem || error instanceof NotNow) return;
    this.#options.log.error({ err: error }, "Cannot send webhooks");
  }
}

/** The rest of a webhook's messages has to wait. */
class NotNow extends Error {}

const countStates = (listed: readonly ListedWebhook[]) => {
  const counts = { active: 0, failing: 0, paused: 0 };
  for (const { isPaused, isFailing } of listed) counts[isPaused ? "paused" : isFailing ? "failing" : "active"]++;
  return counts;
};
