import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

const PREFIX = "delegation_registry_";

/** Values with their labels. */
export type ReadValues = () => Iterable<readonly [value: number, labels?: Record<string, string>]>;

/** Creates metrics that share a prefix. Gauges and counters read their values at each scrape. */
export class MetricRegistry extends Registry {
  addGauge(name: string, help: string, labelNames: string[], readValues: ReadValues): void {
    new Gauge({
      ...this.#configure(name, help, labelNames),
      collect() {
        this.reset();
        for (const [value, labels = {}] of readValues()) this.set(labels, value);
      },
    });
  }

  addCounter(name: string, help: string, labelNames: string[], readValues: ReadValues): void {
    new Counter({
      ...this.#configure(name, help, labelNames),
      collect() {
        this.reset();
        for (const [value, labels = {}] of readValues()) this.inc(labels, value);
      },
    });
  }

  createCounter(name: string, help: string, labelNames: string[]) {
    return new Counter(this.#configure(name, help, labelNames));
  }

  createHistogram(name: string, help: string, labelName: string, buckets: number[]) {
    return new Histogram({ ...this.#configure(name, help, [labelName]), buckets });
  }

  /** Adds memory, event loop and garbage collection. */
  addProcessMetrics(): void {
    collectDefaultMetrics({ register: this, prefix: PREFIX });
  }

  #configure(name: string, help: string, labelNames: string[]) {
    return { name: PREFIX + name, help, labelNames, registers: [this] };
  }
}
