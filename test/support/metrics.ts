/** A line of what Prometheus reads. */
export type Sample = { name: string; labels: Record<string, string>; value: number };

/** Reads Prometheus' text format, as far as it is used here. */
export const parseMetrics = (text: string): Sample[] =>
  text
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const [, name = "", labels = "", value = ""] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
      if (!name) throw new Error(`This is no metric: ${line}`);
      return { name, labels: parseLabels(labels), value: value === "+Inf" ? Infinity : Number(value) };
    });

const parseLabels = (text: string): Record<string, string> =>
  Object.fromEntries([...text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, name, value]) => [name, value]));

/** The samples of a metric that have these labels, among others. */
export const samplesOf = (samples: readonly Sample[], name: string, labels: Record<string, string> = {}): Sample[] =>
  samples.filter(
    (sample) =>
      sample.name === `delegation_registry_${name}` &&
      Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
  );

/** The one value that has these labels. */
export const readValue = (samples: readonly Sample[], name: string, labels: Record<string, string> = {}): number => {
  const [sample, ...others] = samplesOf(samples, name, labels);
  if (!sample || others.length > 0) throw new Error(`${others.length + (sample ? 1 : 0)} values of ${name}.`);
  return sample.value;
};
