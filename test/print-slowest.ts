import { readFileSync } from "node:fs";
import { relative } from "node:path";

// Prints the ten slowest test files of the given JSON reports, at the end of .ci/run.

const SHOWN = 10;

type Report = { testResults: { name: string; startTime: number; endTime: number }[] };

const files = process.argv.slice(2).flatMap((path) => (JSON.parse(readFileSync(path, "utf8")) as Report).testResults);
console.log(`\nThe ${SHOWN} slowest test files:`);
for (const { name, startTime, endTime } of files
  .toSorted((a, b) => b.endTime - b.startTime - (a.endTime - a.startTime))
  .slice(0, SHOWN)) {
  console.log(`${((endTime - startTime) / 1000).toFixed(1).padStart(8)} s  ${relative(process.cwd(), name)}`);
}
