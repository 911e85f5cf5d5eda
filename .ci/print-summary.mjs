import { readFileSync } from "node:fs";
import { relative } from "node:path";

// Prints the ten slowest test files of the given JSON reports, at the end of .ci/run.

const files = process.argv
  .slice(2)
  .flatMap((path) => JSON.parse(readFileSync(path, "utf8")).testResults)
  .map(({ name, startTime, endTime }) => ({ name, seconds: (endTime - startTime) / 1000 }))
  .toSorted((a, b) => b.seconds - a.seconds);

console.log("\nThe 10 slowest test files:");
for (const { name, seconds } of files.slice(0, 10)) {
  console.log(`${seconds.toFixed(1).padStart(8)} s  ${relative(process.cwd(), name)}`);
}
