import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { ROOT } from "../support/run.ts";

const run = promisify(execFile);

test("npm install runs no install script with this project's .npmrc", async () => {
  const folder = await mkdtemp(join(tmpdir(), "install-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const dependency = join(folder, "dependency");
  await mkdir(dependency);
  await writeFile(join(folder, "package.json"), JSON.stringify({ dependencies: { wanting: "file:dependency" } }));
  const script = "node -e \"require('fs').writeFileSync(process.env.INIT_CWD + '/has-run', '')\"";
  const wanting = { name: "wanting", version: "1.0.0", scripts: { postinstall: script } };
  await writeFile(join(dependency, "package.json"), JSON.stringify(wanting));
  const install = async (...flags: string[]) => {
    const always = ["install", "--install-links", "--offline", "--no-audit", "--no-package-lock"];
    await rm(join(folder, "node_modules"), { recursive: true, force: true });
    await run("npm", [...always, ...flags], { cwd: folder });
    return (await readdir(folder)).includes("has-run");
  };

  await cp(join(ROOT, ".npmrc"), join(folder, ".npmrc"));
  expect(await install()).toBe(false);
  // The script itself works.
  expect(await install("--ignore-scripts=false")).toBe(true);
});

const via = z.union([z.string(), z.object({ name: z.string(), url: z.string(), title: z.string() })]);
const report = z.object({
  auditReportVersion: z.literal(2),
  vulnerabilities: z.record(z.string(), z.object({ via: z.array(via), nodes: z.array(z.string()) })),
});

test("docs/security.md explains every advisory of npm audit", async ({ skip }) => {
  const flags = ["audit", "--json", "--fetch-retries=0", "--fetch-timeout=20000"];
  const { stdout } = await run("npm", flags, { cwd: ROOT, maxBuffer: 2 ** 26 }).catch((error) => error);
  const audit = report.safeParse(JSON.parse(stdout || "{}"));
  if (!audit.success) return skip("The registry does not answer npm audit here.");

  const document = await readFile(join(ROOT, "docs/security.md"), "utf8");
  const lock = JSON.parse(await readFile(join(ROOT, "package-lock.json"), "utf8"));
  const [, developing = ""] = document.split("### Only for development");
  const isExplained = (url: string, name: string, nodes: string[]) =>
    document.includes(url.slice(url.lastIndexOf("/") + 1)) ||
    // A development dependency is explained by name.
    (nodes.every((path) => lock.packages[path]?.dev) && developing.includes(`\`${name}\``));
  const unexplained = Object.values(audit.data.vulnerabilities).flatMap(({ via, nodes }) =>
    via.flatMap((advisory) =>
      typeof advisory === "string" || isExplained(advisory.url, advisory.name, nodes)
        ? []
        : `${advisory.name}: ${advisory.title}, ${advisory.url}`,
    ),
  );
  expect(unexplained).toEqual([]);
});
