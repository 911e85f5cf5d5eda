import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import type { ChangeFeed } from "../changes/change-feed.ts";
import { isAsked } from "../changes/change-stream.ts";
import type { Filters, Finality } from "../changes/filters.ts";
import type { NetworkChanges } from "../changes/read-changes.ts";
import type { Database } from "../database/database.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { Problem } from "../problem.ts";
import type { Shards } from "../shards/shards.ts";
import { inSlices } from "../slices.ts";
import {
  type AskedDelivery,
  beginDelivery,
  countPausedWebhooks,
  type Delivery,
  findDueWebhook,
  forgetOldWebhooks,
  type ListedWebhook,
  listActiveWebhooks,
  listAskedDeliveries,
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
/** How often old webhooks are deleted. */
const FORGET_MS = 600_000;
/** A receiver that took longer to answer, or gave no answer, counts with those that fail for a while. */
const SLOW_MS = 1_000;
const SLOW_FOR_MS = 300_000;
/** Time for messages in flight when the process stops. */
const STOP_MS = 4_000;

/** What takes places. `slow`: receivers that fail, or were slow of late. `asked`: tests, and messages to send again. */
const KINDS = ["asked", "slow", "quick"] as const;

type Kind = (typeof KINDS)[number];

type Limits = {
  /** Messages in flight, of all kinds and of each. A silent receiver takes its place for 10 s. */
  places: Record<Kind | "all", number>;
  /** As many of them may be one owner's. */
  placesPerOwner: number;
  /** Time after which a webhook with more messages waits for its next turn. */
  turnMs: number;
};

const LIMITS: Limits = { places: { all: 64, quick: 64, slow: 16, asked: 16 }, placesPerOwner: 2, turnMs: 2_000 };

type Work = { owner: string | null; run: () => Promise<void> };

type WorkerOptions = {
  database: Database;
  shards: Shards;
  feed: ChangeFeed;
  send: Send;
  load: Metrics["webhooks"];
  log: Logger;
  /** For tests. */
  limits?: Limits;
};

/** Sends the messages of all webhooks, in one process at a time. It holds nothing that the database does not have. */
export class WebhookWorker {
  readonly #options: WorkerOptions & { limits: Limits };
  readonly #lease: Lease;
  readonly #webhooks = new Map<string, ListedWebhook>();
  /** Webhooks that may have something to read. */
  readonly #news = new Set<string>();
  /** When webhooks last had a slow answer, or none. */
  readonly #slow = new Map<string, number>();
  /** Networks that could not be answered for when a webhook read the log. */
  readonly #unanswered = new Map<string, readonly number[]>();
  /** When each webhook reads the log without news. */
  readonly #sweepAt = new Map<string, number>();
  /** Turns of webhooks by their ids, and asked deliveries by theirs: first come, first served. */
  readonly #queues = { asked: new Map<string, Work>(), slow: new Map<string, Work>(), quick: new Map<string, Work>() };
  readonly #busy = new Map<string, { kind: Kind; owner: string | null; working: Promise<void> }>();
  readonly #followers = new Map<Finality, News>();
  #forgotAt = Number.NEGATIVE_INFINITY;
  #isWorker = false;
  /** Aborted when this process loses its right to send. */
  #sending = new AbortController();
  readonly #stopping = new AbortController();
  #running = Promise.resolve();

  constructor(options: WorkerOptions) {
    this.#options = { limits: LIMITS, ...options };
    this.#lease = new Lease(options.database);
  }

  start(): void {
    this.#running = this.#run();
  }

  /** Finishes the messages in flight, for a while, and lets another process take over at once. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
    const inFlight = Promise.all([...this.#busy.values()].map(({ working }) => working));
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
    this.#isWorker = true;
    const listed = await listActiveWebhooks(database);
    const paused = await countPausedWebhooks(database);
    const asked = await listAskedDeliveries(database);
    const now = performance.now();
    for (const [id, at] of this.#slow) if (now - at > SLOW_FOR_MS) this.#slow.delete(id);
    const gone = new Set(this.#webhooks.keys());
    this.#webhooks.clear();
    for (const webhook of listed) {
      const { id, waitedSeconds } = webhook;
      gone.delete(id);
      this.#webhooks.set(id, webhook);
      const sweepAt = this.#sweepAt.get(id);
      if (sweepAt === undefined || sweepAt < now) {
        this.#news.add(id);
        // Those that are new together are not swept together.
        this.#sweepAt.set(id, now + SWEEP_MS * (sweepAt === undefined ? Math.random() : 1));
      }
      if (waitedSeconds !== null || this.#news.has(id)) this.#enqueue(id);
    }
    const { slow, quick } = this.#queues;
    for (const id of gone) {
      for (const names of [this.#news, this.#unanswered, this.#sweepAt, slow, quick]) names.delete(id);
    }
    this.#queues.asked.clear();
    for (const each of asked) {
      if (this.#busy.has(each.deliveryId)) continue;
      this.#queues.asked.set(each.deliveryId, { owner: each.owner, run: () => this.#answer(each) });
    }
    const failing = listed.filter(({ isFailing }) => isFailing).length;
    load.webhooks = { active: listed.length - failing, failing, paused };
    load.lagSeconds = { operator: 0, wallet: 0 };
    for (const webhook of listed) {
      const owner = webhook.owner === null ? "operator" : "wallet";
      load.lagSeconds[owner] = Math.max(load.lagSeconds[owner], webhook.waitedSeconds ?? 0);
    }
    this.#follow(new Set(listed.map(({ finality }) => finality)));
    this.#serve();
    if (now - this.#forgotAt < FORGET_MS) return;
    await forgetOldWebhooks(database);
    this.#forgotAt = now;
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
      const onNews = ({ chainId, undoTo, changes }: NetworkChanges) => {
        const isTold = undoTo ? () => true : (filters: Filters) => changes.some((change) => isAsked(filters, change));
        this.#hear(finality, new Set([chainId]), isTold);
      };
      const onFollowed = (chainIds: ReadonlySet<number>) => this.#hear(finality, chainIds, () => true);
      const onReached = (chainIds: ReadonlySet<number>) => this.#readAgain(finality, chainIds);
      this.#followers.set(finality, new News({ feed, shards, finality, onNews, onFollowed, onReached }));
    }
  }

  /** Notes which webhooks have to be told. */
  #hear(finality: Finality, chainIds: ReadonlySet<number>, isTold: (filters: Filters) => boolean): void {
    inSlices([...this.#webhooks.values()], (webhook) => {
      const { id, filters } = webhook;
      const isOfNetwork = webhook.chainIds.length === 0 || webhook.chainIds.some((chainId) => chainIds.has(chainId));
      // It may be gone by now.
      if (webhook.finality !== finality || !isOfNetwork || !this.#webhooks.has(id) || !isTold(filters)) return;
      this.#news.add(id);
      this.#enqueue(id);
    })
      .then(() => this.#serve())
      .catch((error) => this.#report(error));
  }

  /** Lets webhooks read that lack one of these networks. */
  #readAgain(finality: Finality, chainIds: ReadonlySet<number>): void {
    for (const [id, unanswered] of this.#unanswered) {
      const isOfFinality = this.#webhooks.get(id)?.finality === finality;
      if (!isOfFinality || !unanswered.some((chainId) => chainIds.has(chainId))) continue;
      this.#unanswered.delete(id);
      this.#news.add(id);
      this.#enqueue(id);
    }
    this.#serve();
  }

  /** Lets a webhook wait for its turn, unless it does so already, or has it, or may not have one yet. */
  #enqueue(id: string): void {
    const webhook = this.#webhooks.get(id);
    const { slow, quick } = this.#queues;
    if (!webhook?.isDue || this.#busy.has(id) || slow.has(id) || quick.has(id)) return;
    const queue = webhook.isFailing || this.#slow.has(id) ? slow : quick;
    queue.set(id, { owner: webhook.owner, run: () => this.#advance(id) });
  }

  /** Starts what waits, as far as there are places. */
  #serve(): void {
    if (!this.#lease.isHeld || this.#stopping.signal.aborted) return;
    const { places, placesPerOwner } = this.#options.limits;
    const inFlight = () => [...this.#busy.values()];
    for (const kind of KINDS) {
      for (const [name, { owner, run }] of this.#queues[kind]) {
        if (this.#busy.size >= places.all) return;
        if (inFlight().filter((each) => each.kind === kind).length >= places[kind]) break;
        if (owner !== null && inFlight().filter((each) => each.owner === owner).length >= placesPerOwner) continue;
        this.#queues[kind].delete(name);
        const working = run()
          .catch((error) => this.#report(error))
          .finally(() => {
            this.#busy.delete(name);
            if (this.#news.has(name)) this.#enqueue(name);
            this.#serve();
          });
        this.#busy.set(name, { kind, owner, working });
      }
    }
  }

  /** Sends what a webhook has to be told: the message that waits, or the next ones of the log. */
  async #advance(id: string): Promise<void> {
    // Before the log is read: what comes then is news again.
    this.#news.delete(id);
    this.#unanswered.delete(id);
    let isDone = false;
    try {
      isDone = await this.#sendAll(id);
      const webhook = this.#webhooks.get(id);
      if (webhook) webhook.isFailing = false;
    } catch (error) {
      // Until the next look at the table.
      const webhook = this.#webhooks.get(id);
      if (webhook) webhook.isDue = false;
      throw error;
    } finally {
      if (!isDone && this.#webhooks.has(id)) this.#news.add(id);
    }
  }

  /** @returns false if there is more. Throws NotNow if the rest has to wait. */
  async #sendAll(id: string): Promise<boolean> {
    const { database, limits } = this.#options;
    const endsAt = performance.now() + limits.turnMs;
    const webhook = await findDueWebhook(database, id);
    if (!webhook) throw new NotNow();
    let { cursor } = webhook;
    if (webhook.pending) {
      await this.#deliver(webhook, webhook.pending);
      cursor = webhook.pending.after;
      if (performance.now() >= endsAt) return false;
    }
    const { messages, after, hasMore, unanswered } = await readMessages(this.#options, { ...webhook, cursor });
    if (unanswered.length > 0 && this.#webhooks.has(id)) this.#unanswered.set(id, unanswered);
    try {
      for (const message of messages) {
        const begun = await beginDelivery(database, { ...message, id, messageId: generateMessageId(), before: cursor });
        if (!begun) throw new NotNow();
        await this.#deliver(begun, begun);
        cursor = message.after;
        if (performance.now() >= endsAt) return false;
      }
    } finally {
      if (messages.length > 0) await pruneDeliveries(database, id);
    }
    if (after !== cursor) await saveCursor(database, { id, before: cursor, after });
    return !hasMore;
  }

  async #deliver(receiver: Receiver, delivery: Delivery): Promise<void> {
    const { database, log } = this.#options;
    const { id } = receiver;
    const outcome = await this.#post(receiver, delivery);
    if (outcome.milliseconds === null || outcome.milliseconds > SLOW_MS) this.#slow.set(id, performance.now());
    const settled = await settleDelivery(database, delivery, outcome);
    // Not the reason: it can name the receiver.
    if (settled?.isGivenUp) log.warn({ webhook: id }, 'A webhook is paused: "npm run webhooks -- list" says why');
    if (!settled || !outcome.isDelivered) throw new NotNow();
  }

  /** Sends a test, or a message again. */
  async #answer(asked: AskedDelivery): Promise<void> {
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
    if (!this.#isWorker) return;
    this.#isWorker = false;
    this.#sending.abort();
    this.#sending = new AbortController();
    this.#webhooks.clear();
    for (const names of [this.#news, this.#slow, this.#unanswered, this.#sweepAt]) names.clear();
    for (const queue of Object.values(this.#queues)) queue.clear();
    this.#follow(new Set());
    load.webhooks = null;
    load.lagSeconds = { operator: 0, wallet: 0 };
  }

  #report(error: unknown): void {
    // The database logs that it is unreachable.
    if (error instanceof Problem || error instanceof NotNow) return;
    this.#options.log.error({ err: error }, "Cannot send webhooks");
  }
}

/** The rest of a webhook's messages has to wait. */
class NotNow extends Error {}
