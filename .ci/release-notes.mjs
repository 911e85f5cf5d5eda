import { readFileSync } from "node:fs";

// node .ci/release-notes.mjs v1.0.0: prints the changelog of the version. Fails unless the tag names the project's version.

const [tag = ""] = process.argv.slice(2);
const { version } = JSON.parse(readFileSync("package.json", "utf8"));
const notes = readFileSync("CHANGELOG.md", "utf8")
  .split(/^## /m)
  .find((section) => section.startsWith(`${version}\n`));
if (tag !== `v${version}`) throw new Error(`The tag ${tag} must be v${version}, the version in package.json.`);
if (!notes) throw new Error(`CHANGELOG.md has no section ${version}.`);
console.log(notes.slice(version.length).trim());
