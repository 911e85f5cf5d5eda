/** One line of Prometheus' text format. */
export type Sample = { name: string; labels: Record<string, string>; value: number };

/** Parses the part of Prometheus' text format that the service uses. */
export const parseMetrics = (text: string): Sample[] =>
  text
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const [, name = "", labels = "", value = ""] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
      if (!name) throw new Error(`Not a metric: ${line}`);
      return { name, labels: parseLabels(labels), value: value === "+Inf" ? Infinity : Number(value) };
    });

const parseLabels = (text: string): Record<string, string> =>
  Object.fromEntries([...text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, name, value]) => [name, value]));

/** Finds the samples of a metric with at least these labels. */
export const findSamples = (samples: readonly Sample[], name: string, labels: Record<string, string> = {}): Sample[] =>
  samples.filter(
    (sample) =>
      sample.name === `delegation_registry_${name}` &&
      Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
  );

/** Reads the value of the only sample with these labels. */
export const readValue = (samples: readonly Sample[], name: string, labels: Record<string, string> = {}): number => {
  const [sample, ...others] = findSamples(samples, name, labels);
  if (!sample || others.length > 0)
    throw new Error(`Expected one value of ${name}, found ${others.length + (sample ? 1 : 0)}.`);
  return sample.value;
};
