import { readFileSync } from "node:fs";
import { relative } from "node:path";

// Prints the tests that passed at a second try, and the ten slowest test files of the given JSON reports, at the end of
// .ci/run.

const SHOWN = 10;

type Report = {
  testResults: {
    name: string;
    startTime: number;
    endTime: number;
    assertionResults: { fullName: string; status: string; failureMessages: string[] }[];
  }[];
};

const files = process.argv.slice(2).flatMap((path) => (JSON.parse(readFileSync(path, "utf8")) as Report).testResults);
const nameFile = (name: string) => relative(process.cwd(), name);

const retried = files.flatMap(({ name, assertionResults }) =>
  assertionResults
    .filter(({ status, failureMessages }) => status === "passed" && failureMessages.length > 0)
    .map(
      ({ fullName, failureMessages }) => `${nameFile(name)}: ${fullName}\n    ${failureMessages[0]?.split("\n", 1)}`,
    ),
);
if (retried.length > 0) console.log(`\nPassed at a second try:\n  ${retried.join("\n  ")}`);

console.log(`\nThe ${SHOWN} slowest test files:`);
for (const { name, startTime, endTime } of files
  .toSorted((a, b) => b.endTime - b.startTime - (a.endTime - a.startTime))
  .slice(0, SHOWN)) {
  console.log(`${((endTime - startTime) / 1000).toFixed(1).padStart(8)} s  ${nameFile(name)}`);
}
