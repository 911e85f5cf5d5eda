import { hash } from "node:crypto";
import type { Address } from "viem";
import { networkName } from "../registry/networks.ts";
import { checksumAddress } from "./checksum-address.ts";
import { overloaded } from "./database.ts";
import { withDeadline } from "./deadline.ts";
import { Problem } from "./problem.ts";
import type { Activity, InsightRows } from "./queries/read-insights.ts";

/** They are read again no sooner than this after they were, */
const FRESH_MS = 60_000;
/** and, if that failed, than this. */
const RETRY_MS = 10_000;
/** Whoever comes first waits so long, and nobody else for anything. */
const PATIENCE_MS = 8_000;

/** What was read, as it is sent. */
export type Snapshot = { body: string; etag: string; readAt: number };

/**
 * What people do with the registries, read at most once a minute whatever the crowd: all who ask are given what was
 * read last, while it is read anew behind their backs if it is old. Where it cannot be read, the last stays.
 */
export class Insights {
  readonly #read: () => Promise<InsightRows>;
  readonly #onError: (error: unknown) => void;
  readonly #now: () => number;
  #last: Snapshot | null = null;
  #reading: Promise<void> | null = null;
  #triedAt = Number.NEGATIVE_INFINITY;
  #failure: unknown = null;

  /** @param onError is told of what went wrong, unless it is one of the things that do */
  constructor(read: () => Promise<InsightRows>, onError: (error: unknown) => void, now: () => number = Date.now) {
    this.#read = read;
    this.#onError = onError;
    this.#now = now;
  }

  /** What was read last, at once; only whoever comes before anything was read has to wait. Throws a Problem where there is nothing. */
  async find(): Promise<Snapshot> {
    this.#refresh();
    if (this.#last) return this.#last;
    if (this.#reading) await withDeadline(PATIENCE_MS, this.#reading, notYet);
    if (this.#last) return this.#last;
    throw this.#failure instanceof Problem ? this.#failure : notYet();
  }

  #refresh(): void {
    const now = this.#now();
    const isFresh = this.#last !== null && now - this.#last.readAt < FRESH_MS;
    if (isFresh || this.#reading || now - this.#triedAt < RETRY_MS) return;
    this.#triedAt = now;
    this.#reading = this.#read()
      .then(
        (rows) => {
          this.#last = writeSnapshot(rows, this.#now());
          this.#failure = null;
        },
        (error) => {
          this.#failure = error;
          if (!(error instanceof Problem)) this.#onError(error);
        },
      )
      .finally(() => {
        this.#reading = null;
      });
  }
}

const notYet = () => overloaded("The sums are not there yet. Try again in a moment.");

const writeSnapshot = (rows: InsightRows, readAt: number): Snapshot => {
  const body = JSON.stringify(showInsights(rows, readAt));
  return { body, etag: `"${hash("sha256", body, "base64url")}"`, readAt };
};

type Counts = { made: number; changed: number; revoked: number };

const addUp = (activity: readonly Activity[]): Counts =>
  activity.reduce(
    (sum, { made, changed, revoked }) => ({
      made: sum.made + made,
      changed: sum.changed + changed,
      revoked: sum.revoked + revoked,
    }),
    { made: 0, changed: 0, revoked: 0 },
  );

/** docs/explorer-api.md says what this is. */
const showInsights = ({ days, weeks, contracts, summedChains }: InsightRows, readAt: number) => ({
  readAt: Math.floor(readAt / 1000),
  totals: { ...addUp(weeks), active: activeAfter(weeks) },
  networks: summedChains.map((chainId) => {
    const own = weeks.filter((activity) => activity.chainId === chainId);
    return { chainId, name: networkName(chainId), ...addUp(own), active: activeAfter(own) };
  }),
  days,
  weeks,
  contracts: contracts.map(({ contract, chainId, ...counts }) => ({
    chainId,
    network: networkName(chainId),
    contract: checksumAddress(contract as Address),
    ...counts,
  })),
});

const activeAfter = (activity: readonly Activity[]): number => {
  const { made, revoked } = addUp(activity);
  return made - revoked;
};
