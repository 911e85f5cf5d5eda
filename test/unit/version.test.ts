import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ROOT } from "../support/run.ts";

const read = (file: string) => readFileSync(join(ROOT, file), "utf8");
const versionOf = (folder: string): string => JSON.parse(read(join(folder, "package.json"))).version;

test.for([".", "client"])("the changelog in %s has the current version", (folder) => {
  expect(read(join(folder, "CHANGELOG.md"))).toContain(`\n## ${versionOf(folder)}\n`);
});

test("images built without BUILD_VERSION have the version of package.json, as /status has", () => {
  const label = read("Dockerfile").match(/image\.version="\$\{BUILD_VERSION:-(.+)\}"/);
  expect(label?.[1]).toBe(versionOf("."));
});

test("package-lock.json has the current versions", () => {
  const { version, packages } = JSON.parse(read("package-lock.json"));
  expect([version, packages[""].version, packages.client.version]).toEqual([
    versionOf("."),
    versionOf("."),
    versionOf("client"),
  ]);
});
