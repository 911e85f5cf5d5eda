/** How often values of which size came up: plain numbers, which a request counts up in no time. */
export class Tally {
  readonly #bounds: Float64Array;
  /** How many values are at most as large as a bound, and larger than the one before it; the last, than all. */
  readonly #counts: Float64Array;
  #sum = 0;

  /** @param bounds - in ascending order */
  constructor(bounds: readonly number[]) {
    this.#bounds = Float64Array.from(bounds);
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const bounds = this.#bounds;
    let place = 0;
    while (place < bounds.length && value > (bounds[place] ?? 0)) place++;
    this.#counts[place] = (this.#counts[place] ?? 0) + 1;
    this.#sum += value;
  }

  /** As Prometheus wants it: how many values are at most as large as each bound. */
  read(): { buckets: [bound: string, count: number][]; sum: number; count: number } {
    let count = 0;
    const buckets = [...this.#counts].map((own, place): [string, number] => {
      count += own;
      return [String(this.#bounds[place] ?? "+Inf"), count];
    });
    return { buckets, sum: this.#sum, count };
  }
}

/**
 * Tallies as a histogram of Prometheus, one for each value of a label. prom-client's own histogram can only
 * be given one value at a time, and takes a microsecond for each.
 */
export const writeHistogram = (
  name: string,
  help: string,
  label: string,
  tallies: Iterable<readonly [value: string, tally: Tally]>,
): string => {
  const lines = [`# HELP ${name} ${help}`, `# TYPE ${name} histogram`];
  for (const [value, tally] of tallies) {
    const labels = `${label}="${value}"`;
    const { buckets, sum, count } = tally.read();
    for (const [bound, reached] of buckets) lines.push(`${name}_bucket{le="${bound}",${labels}} ${reached}`);
    lines.push(`${name}_sum{${labels}} ${sum}`, `${name}_count{${labels}} ${count}`);
  }
  return `${lines.join("\n")}\n`;
};
