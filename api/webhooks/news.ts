import type { Position } from "../changes/change-cursor.ts";
import type { ChangeFeed, Follower, Head } from "../changes/change-feed.ts";
import type { Finality } from "../changes/filters.ts";
import type { NetworkChanges } from "../changes/read-changes.ts";
import type { Shards } from "../shards/shards.ts";

type NewsOptions = {
  feed: ChangeFeed;
  shards: Shards;
  finality: Finality;
  onNews: (changes: NetworkChanges) => void;
  /** Called with networks that are followed from now on: earlier changes were not seen. */
  onFollowed: (chainIds: ReadonlySet<number>) => void;
  /** Called again and again with the networks that can be answered for. */
  onReached: (chainIds: ReadonlySet<number>) => void;
};

/** Follows the feed of all streams, so that a webhook reads the log only when there is something for it. */
export class News implements Follower {
  readonly finality: Finality;
  readonly #options: NewsOptions;
  readonly #heads = new Map<number, Head>();

  constructor(options: NewsOptions) {
    this.#options = options;
    this.finality = options.finality;
    options.feed.add(this);
  }

  addChains(chains: Set<number>): void {
    for (const { chainId } of this.#options.shards.chainStates()) chains.add(chainId);
  }

  receive(_before: Position, changes: NetworkChanges): null {
    this.#options.onNews(changes);
    return null;
  }

  tellProgress(): void {
    const { feed, shards, onFollowed, onReached } = this.#options;
    const followed = new Set<number>();
    const reached = new Set<number>();
    for (const { chainId } of shards.chainStates()) {
      const head = feed.findHead(this.finality, chainId);
      if (head && head !== this.#heads.get(chainId)) {
        head.join(this);
        this.#heads.set(chainId, head);
        followed.add(chainId);
      }
      if (head?.reached) reached.add(chainId);
    }
    if (followed.size > 0) onFollowed(followed);
    onReached(reached);
  }

  /** It takes all changes at once. */
  fallBehind(): void {}

  /** The worker ends it. */
  end(): void {}

  close(): void {
    for (const head of this.#heads.values()) head.leave(this);
    this.#options.feed.remove(this);
  }
}
