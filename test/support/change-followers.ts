import type { IncomingMessage, ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { type Change, type LatestEvent, watchChanges } from "../../client/src/watch.ts";
import { type ReceivedWebhook, verifyWebhook, type WebhookMessage } from "../../client/src/webhook.ts";
import { type Answers, deriveAnswers, findDifferences } from "./answers.ts";
import type { Api } from "./api.ts";
import { Fold, type LiveChange, openStream, type StreamEvent } from "./changes.ts";
import { startHttp } from "./http.ts";
import type { Random } from "./random.ts";
import type { ComparedChain } from "./random-chain.ts";
import { createWebhook } from "./webhooks.ts";

// Readers of live changes, which are compared with the registries.

type Reached = { number: number; answers: Answers };

/** The registries' answers at each block, on every fork that there was. */
export class Forks {
  readonly #subject: ComparedChain;
  readonly #answers = new Map<number, Map<string, Map<string, string>>>();

  constructor(subject: ComparedChain) {
    this.#subject = subject;
  }

  /** Asks the registries at blocks of the chain as it is now. */
  async record(from: number): Promise<number> {
    const { client } = this.#subject.local;
    const newest = Number(await client.getBlockNumber());
    for (let number = Math.max(from, 1); number <= newest; number++) {
      const { hash } = await client.getBlock({ blockNumber: BigInt(number) });
      const forks = this.#answers.get(number) ?? new Map();
      this.#answers.set(number, forks);
      if (!forks.has(hash)) forks.set(hash, await this.#subject.askRegistries(BigInt(number), []));
    }
    return newest;
  }

  /** Derives the answers of the delegations that a reader has. */
  readAnswers(fold: Fold): Answers {
    return deriveAnswers(fold.readState(), this.#subject.world, []);
  }

  /** Compares them with the registries' own at a block of any fork. */
  compare({ number, answers }: Reached): string[] {
    const forks = [...(this.#answers.get(number)?.values() ?? [])];
    const found = forks.map((expected) => findDifferences(answers, expected, `block ${number}`));
    return found.find((differences) => differences.length === 0) ?? found[0] ?? [`block ${number} was never there`];
  }
}

type Service = Pick<Api, "get">;

type FollowerOptions = {
  random: Random;
  /** The processes that answer, which may change. */
  apis: () => readonly [Service, ...Service[]];
  forks: Forks;
  chainId: number;
};

/** A reader of a network's whole log, which loses its connection now and then, and goes on at another API. */
abstract class Follower {
  readonly fold = new Fold();
  readonly reached: Reached[] = [];
  newest = -1;
  connections = 0;
  failure: unknown;
  readonly #stopping = new AbortController();

  constructor(readonly options: FollowerOptions) {}

  start(): void {
    this.follow(this.#stopping.signal).catch((error) => {
      if (!this.#stopping.signal.aborted) this.failure = error;
    });
  }

  stop(): void {
    this.#stopping.abort();
  }

  /** Reads events until the signal is aborted. */
  protected abstract follow(signal: AbortSignal): Promise<void>;

  protected apply(event: StreamEvent): void {
    const { chainId, forks } = this.options;
    this.fold.apply(event, chainId);
    if (event.event !== "progress") return;
    const reached = event.data.blocks[chainId]?.number;
    // The registries do not exist yet at block 0, which is final before any other.
    if (!reached) return;
    this.newest = reached;
    this.reached.push({ number: reached, answers: forks.readAnswers(this.fold) });
  }
}

/** Reads the stream, and leaves right after any event. */
export class StreamFollower extends Follower {
  readonly #finality: string;
  #id: string | undefined;

  constructor(finality: "final" | "latest", options: FollowerOptions) {
    super(options);
    this.#finality = finality;
  }

  protected async follow(signal: AbortSignal): Promise<void> {
    const { random, apis, chainId } = this.options;
    const query = `?chainId=${chainId}&cursor=start&finality=${this.#finality}`;
    while (!signal.aborted) {
      const stream = await openStream(random.pick(apis()), query, this.#id).catch(() => null);
      if (!stream) continue;
      this.connections++;
      for await (const event of stream.events) {
        this.#id = event.id;
        this.apply(event);
        if (signal.aborted || random.chance(0.05)) break;
      }
      stream.close();
    }
  }
}

/** Folds what the client hands over, while its connections break within any event. */
export class ClientFollower extends Follower {
  protected async follow(signal: AbortSignal): Promise<void> {
    const { chainId } = this.options;
    const service = { url: "http://localhost", fetch: this.#fetch };
    const question = { chainId, finality: "latest", cursor: "start", signal } as const;
    for await (const event of watchChanges(service, question)) this.apply(toStreamEvent(event));
  }

  /** Asks any of the APIs. */
  readonly #fetch: typeof fetch = async (url, init) => {
    const { random, apis } = this.options;
    const { pathname, search } = new URL(String(url));
    const response = await random.pick(apis()).get(pathname + search, init);
    this.connections++;
    const breakSometimes = new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, controller) => {
        const isBroken = random.chance(0.15);
        controller.enqueue(isBroken ? chunk.subarray(0, random.integer(0, chunk.length)) : chunk);
        if (isBroken) controller.error(new TypeError("terminated"));
      },
    });
    return new Response(response.body?.pipeThrough(breakSometimes), response);
  };
}

/**
 * A server that a webhook tells of everything. It refuses messages now and then, or breaks off their connections, before
 * or after it has taken them.
 */
export class WebhookFollower {
  readonly fold = new Fold();
  attempts = 0;
  repeated = 0;
  failure: unknown;
  readonly #random: Random;
  readonly #seen = new Set<string>();

  constructor({ random }: Pick<FollowerOptions, "random">) {
    this.#random = random;
  }

  async start(databaseUrl: string, chainId: number): Promise<void> {
    // The first message may come before the secret is known here.
    let secret: Promise<string>;
    const { url } = await startHttp((request, response) => {
      this.#answer(request, response, secret).catch((error) => {
        this.failure = error;
        request.destroy();
      });
    });
    const question = ["--chain", String(chainId), "--finality", "latest", "--cursor", "start"];
    secret = createWebhook(databaseUrl, url, ...question).then((made) => made.secret);
    await secret;
  }

  async #answer(request: IncomingMessage, response: ServerResponse, secret: Promise<string>): Promise<void> {
    this.attempts++;
    const received: ReceivedWebhook = { headers: request.headers, body: await text(request) };
    const message = await verifyWebhook(received, await secret);
    const isLost = this.#random.chance(0.02);
    if (!isLost || this.#random.chance(0.5)) this.#take(message);
    if (!isLost) response.writeHead(204).end();
    else if (this.#random.chance(0.5)) response.writeHead(500).end();
    else request.destroy();
  }

  #take({ id, type, data }: WebhookMessage): void {
    if (this.#seen.has(id)) {
      this.repeated++;
      return;
    }
    this.#seen.add(id);
    if (type === "delegation.changed") this.fold.change(toLiveChange(data));
    else if (type === "delegation.undone") this.fold.undo(data);
  }
}

const toStreamEvent = (event: LatestEvent): StreamEvent => {
  const id = event.cursor;
  switch (event.type) {
    case "change":
      return { id, event: "change", data: toLiveChange(event.change) };
    case "undo":
      return { id, event: "undo", data: event };
    case "progress":
      return { id, event: "progress", data: event };
  }
};

const toLiveChange = (change: Change): LiveChange => ({
  ...change,
  blockNumber: Number(change.blockNumber),
  blockTimestamp: Number(change.blockTimestamp),
  tokenId: change.tokenId?.toString() ?? null,
  amount: change.amount?.toString() ?? null,
});
