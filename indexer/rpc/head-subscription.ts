import { setTimeout as sleep } from "node:timers/promises";
import { type Hash, webSocket } from "viem";
import { connectSocket } from "./connect-socket.ts";

/** Time until the newest block is requested although the subscription is silent. */
const MAX_SILENCE_MS = 5_000;
const RECONNECT_MS = 2_000;

/**
 * A subscription to new blocks over a WebSocket. It only tells when to request the newest block: blocks and logs are
 * requested and verified as without it. A subscription that has missed a block counts as broken until the next message.
 */
export class HeadSubscription {
  readonly #url: string;
  #isOpen = false;
  #announcedAt = 0;
  #polledAt = 0;
  #newest: Hash | undefined;

  constructor(url: string) {
    this.#url = url;
    this.#keepOpen();
  }

  /** True if a block has been announced since the last poll. */
  hasAnnounced(): boolean {
    return this.#announcedAt >= this.#polledAt;
  }

  /** True if the last poll's block is the newest, unless another one has been announced. */
  isUpToDate(): boolean {
    return this.#isOpen && performance.now() - this.#polledAt < MAX_SILENCE_MS;
  }

  /** @returns a function to call with the newest block */
  startPoll(): (hash: Hash) => void {
    const startedAt = performance.now();
    return (hash) => {
      if (this.#isOpen && !this.hasAnnounced() && this.#newest !== undefined && hash !== this.#newest)
        this.#isOpen = false;
      this.#newest = hash;
      this.#polledAt = startedAt;
    };
  }

  async #keepOpen(): Promise<never> {
    for (;;) {
      await this.#follow().catch(() => {});
      this.#isOpen = false;
      await sleep(RECONNECT_MS);
    }
  }

  /** Subscribes, and returns when the connection is lost. */
  async #follow(): Promise<void> {
    const transport = webSocket(this.#url, { reconnect: false, retryCount: 0 })({});
    const client = await connectSocket(this.#url, transport);
    try {
      await new Promise<void>((resolve, reject) => {
        const onData = () => {
          this.#isOpen = true;
          this.#announcedAt = performance.now();
        };
        // A quiet network announces nothing for hours: the subscription itself counts as an announcement.
        transport.value?.subscribe({ params: ["newHeads"], onData, onError: () => resolve() }).then(onData, reject);
      });
    } finally {
      client.close();
    }
  }
}
