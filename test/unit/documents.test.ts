import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "../support/run.ts";

const DOCUMENTS = [".", "docs", "bench", "client"]
  .flatMap((folder) => readdirSync(join(ROOT, folder)).map((name) => join(folder, name)))
  .filter((path) => path.endsWith(".md") && path !== "CHANGELOG.md");
/** A path in code quotes, such as `test/api/wallets.test.ts` or, for short, `api/wallets`. */
const NAMED_TEST = /`(?:test\/)?((?:unit|api|client|index|commands|browser|slow|support)\/[\w./-]+)`/g;

const exists = (path: string) =>
  [path, `test/${path}`, `test/${path}.test.ts`, `test/${path}.property.test.ts`].some((name) =>
    existsSync(join(ROOT, name)),
  );

test.for(DOCUMENTS)("%s names only test files that exist", (document) => {
  const named = [...readFileSync(join(ROOT, document), "utf8").matchAll(NAMED_TEST)].map(([, path = ""]) => path);
  expect(named.filter((path) => !exists(path))).toEqual([]);
});
