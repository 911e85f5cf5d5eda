import type { Address } from "viem";
import { networkName } from "../../registry/networks.ts";
import type { Asset } from "../../web/build.ts";
import { withDeadline } from "../database/deadline.ts";
import { overloaded } from "../database/problems.ts";
import { checksumAddress } from "../delegations/checksum-address.ts";
import { compress } from "../pages/serve-asset.ts";
import { Problem } from "../problem.ts";
import { showChange } from "../wallets/wallet-json.ts";
import type { ActivityRow, InsightRows } from "./read-insights.ts";

/** Age at which a snapshot is refreshed. */
const FRESH_MS = 60_000;
/** Wait after a failed read. */
const RETRY_MS = 10_000;
/** Maximum wait for the first snapshot. Later requests never wait. */
const FIRST_READ_TIMEOUT_MS = 8_000;

/** All insights as JSON, and only the newest changes: those are short. */
type InsightsSnapshot = { data: Asset; newest: Asset; readAt: number };

/**
 * Caches the insights: reads them at most once a minute, whatever the traffic. Requests get the last snapshot, which
 * is refreshed in the background when it is old. If a read fails, the last snapshot stays.
 */
export class InsightsCache {
  readonly #read: () => Promise<InsightRows>;
  readonly #onError: (error: unknown) => void;
  readonly #now: () => number;
  #last: InsightsSnapshot | null = null;
  #reading: Promise<void> | null = null;
  #triedAt = Number.NEGATIVE_INFINITY;
  #failure: unknown = null;

  /** @param onError - called for unexpected errors, not for problems */
  constructor(read: () => Promise<InsightRows>, onError: (error: unknown) => void, now: () => number = Date.now) {
    this.#read = read;
    this.#onError = onError;
    this.#now = now;
  }

  /** Returns the last snapshot, or waits for the first. Throws a Problem if there is none. */
  async find(): Promise<InsightsSnapshot> {
    this.#refreshIfOld();
    if (this.#last) return this.#last;
    if (this.#reading) await withDeadline(FIRST_READ_TIMEOUT_MS, this.#reading, notReady);
    if (this.#last) return this.#last;
    throw this.#failure instanceof Problem ? this.#failure : notReady();
  }

  #refreshIfOld(): void {
    const now = this.#now();
    const isFresh = this.#last !== null && now - this.#last.readAt < FRESH_MS;
    if (isFresh || this.#reading || now - this.#triedAt < RETRY_MS) return;
    this.#triedAt = now;
    this.#reading = this.#read()
      .then((rows) => writeSnapshot(rows, this.#now()))
      .then(
        (snapshot) => {
          this.#last = snapshot;
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

const notReady = () => overloaded("The insights are not ready yet. Try again in a moment.");

const writeSnapshot = async (rows: InsightRows, readAt: number): Promise<InsightsSnapshot> => {
  const insights = showInsights(rows, readAt);
  const data = await compress(JSON.stringify(insights));
  const newest = await compress(JSON.stringify({ newest: insights.newest }));
  return { data, newest, readAt };
};

/** Formats the response that docs/insights-api.md describes. */
const showInsights = ({ days, weeks, contracts, summedChains, newestChanges }: InsightRows, readAt: number) => ({
  readAt: Math.floor(readAt / 1000),
  totals: showTotals(weeks),
  networks: summedChains.map((chainId) => ({
    chainId,
    name: networkName(chainId),
    ...showTotals(weeks.filter((activity) => activity.chainId === chainId)),
  })),
  days,
  weeks,
  contracts: contracts.map(({ contract, chainId, ...counts }) => ({
    chainId,
    network: networkName(chainId),
    contract: checksumAddress(contract as Address),
    ...counts,
  })),
  newest: newestChanges.map((change) => ({ network: networkName(change.chainId), ...showChange(change) })),
});

const showTotals = (activity: readonly ActivityRow[]) => {
  const sum = (count: "made" | "changed" | "revoked") => activity.reduce((total, row) => total + row[count], 0);
  const made = sum("made");
  const revoked = sum("revoked");
  return { made, changed: sum("changed"), revoked, active: made - revoked };
};
