import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "../support/run.ts";

const listDocuments = (folders: readonly string[]) =>
  folders
    .flatMap((folder) => readdirSync(join(ROOT, folder)).map((name) => join(folder, name)))
    .filter((path) => path.endsWith(".md") && path !== "CHANGELOG.md");
const DOCUMENTS = listDocuments([".", "docs", "bench", "client"]);
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

/** A link to a file, without its section. */
const LINK = /\]\((?!https?:)([^)#\s]+)/g;

test.for([...DOCUMENTS, ...listDocuments(["docs/decisions", "web"])])(
  "%s links only to files that exist",
  (document) => {
    const prose = readFileSync(join(ROOT, document), "utf8").replace(/^```.*?^```/gms, "");
    const linked = [...prose.matchAll(LINK)].map(([, path = ""]) => path);
    expect(linked.filter((path) => !existsSync(join(ROOT, dirname(document), path)))).toEqual([]);
  },
);

test("docs/README.md lists every page of docs", () => {
  const index = readFileSync(join(ROOT, "docs/README.md"), "utf8");
  const pages = listDocuments(["docs"]).map((path) => path.replace("docs/", ""));
  expect(pages.filter((page) => page !== "README.md" && !index.includes(`](${page})`))).toEqual([]);
});

test("docs/decisions/README.md lists every record", () => {
  const records = readdirSync(join(ROOT, "docs/decisions")).filter((name) => /^\d/.test(name));
  const index = readFileSync(join(ROOT, "docs/decisions/README.md"), "utf8");
  expect([...index.matchAll(/\]\((\d[^)]+)\)/g)].map(([, name]) => name)).toEqual(records);
});
