import type { IndexProgress } from "../indexer/shards/progress.ts";
import { networkName } from "../registry/networks.ts";
import type { FetchedHistory } from "./fetched-history.ts";

/** The speed is that of the last 30 s: both numbers grow in steps. */
const WINDOW_MS = 30_000;

type Step = "fetched" | "indexed";
type Sample = { at: number; step: Step; done: number; total: number };

type ChainHistory = { chainId: number; reached: number; samples: readonly Sample[] };

/** Describes the progress of a backfill: one line per chain. */
export class BackfillProgress {
  #chains = new Map<number, ChainHistory>();

  /** @param at the time of the progress, in ms */
  add(chains: readonly IndexProgress[], history: ReadonlyMap<string, FetchedHistory>, at: number): void {
    this.#chains = new Map(
      chains.map((chain) => {
        const { chainId, reached } = chain;
        const sample = { at, ...measureStep(chain, history.get(networkName(chainId))) };
        const earlier = this.#chains.get(chainId)?.samples ?? [];
        const comparable = earlier.filter(({ at: then, step }) => at - then <= WINDOW_MS && step === sample.step);
        return [chainId, { chainId, reached, samples: [...comparable, sample] }];
      }),
    );
  }

  describe(): string {
    return this.#describeEach(({ samples }) => describeSamples(samples));
  }

  describeLive(): string {
    return this.#describeEach(({ reached }) => `live at block ${format(reached)}`);
  }

  #describeEach(describeChain: (chain: ChainHistory) => string): string {
    const chains = [...this.#chains.values()].map((chain) => ({ chain, name: networkName(chain.chainId) }));
    const width = Math.max(...chains.map(({ name }) => name.length));
    return chains.map(({ chain, name }) => `${name.padEnd(width)}  ${describeChain(chain)}\n`).join("");
  }
}

/** Ponder fetches history from the RPC, which takes most of the time, and indexes what it has fetched. */
const measureStep = (chain: IndexProgress, history: FetchedHistory | undefined): Omit<Sample, "at"> => {
  if (history && history.fetched < history.total)
    return { step: "fetched", done: history.fetched, total: history.total };
  const { start, reached, newest } = chain;
  return { step: "indexed", done: Math.max(0, reached - start), total: Math.max(0, newest - start) };
};

const describeSamples = (samples: readonly Sample[]): string => {
  const [first, last] = [samples[0], samples.at(-1)];
  if (!first || !last) return "";
  const { step, done, total } = last;
  const percent = total > 0 ? Math.min(100, Math.floor((done / total) * 1000) / 10) : 100;
  const parts = [`${format(done)} of ${format(total)} blocks ${step}`, `${percent.toFixed(1)} %`];
  const speed = ((done - first.done) * 1000) / (last.at - first.at);
  if (speed > 0) parts.push(`${format(speed)} blocks/s`, `${formatDuration((total - done) / speed)} left`);
  return parts.join("  ");
};

const format = (count: number): string => count.toLocaleString("en-US", { maximumFractionDigits: 0 });

const formatDuration = (seconds: number): string => {
  const minutes = Math.round(seconds / 60);
  if (seconds < 60) return `${Math.max(0, Math.round(seconds))} s`;
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.round(minutes / (24 * 60))} days`;
};
