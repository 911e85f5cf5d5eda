import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { ROOT } from "../support/measure.ts";

// What comes from others: which code, whose, under which terms, and what it may do while it is installed.

const run = promisify(execFile);
const read = (file: string) => readFile(join(ROOT, file), "utf8");

const versions = z.record(z.string(), z.string());
const manifest = z
  .object({
    dependencies: versions,
    devDependencies: versions,
    overrides: versions,
    allowScripts: z.record(z.string(), z.boolean()),
  })
  .parse(JSON.parse(await read("package.json")));

const entry = z.object({
  version: z.string().optional(),
  resolved: z.string().optional(),
  link: z.boolean().optional(),
  integrity: z.string().optional(),
  license: z.string().optional(),
  dev: z.boolean().optional(),
  optional: z.boolean().optional(),
  hasInstallScript: z.boolean().optional(),
  os: z.array(z.string()).optional(),
  cpu: z.array(z.string()).optional(),
  libc: z.array(z.string()).optional(),
  dependencies: versions.optional(),
  devDependencies: versions.optional(),
});
const lock = z
  .object({ lockfileVersion: z.literal(3), packages: z.record(z.string(), entry) })
  .parse(JSON.parse(await read("package-lock.json")));

const nameOf = (path: string) => path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
const packages = Object.entries(lock.packages)
  .filter(([path]) => path !== "")
  .map(([path, fields]) => ({ path, name: nameOf(path), ...fields }));

describe("what is installed is what was reviewed", () => {
  test("every dependency is of an exact version", () => {
    const wanted = { ...manifest.dependencies, ...manifest.devDependencies, ...manifest.overrides };
    for (const [name, version] of Object.entries(wanted)) {
      expect(version, name).toMatch(/^\d+\.\d+\.\d+(-[\w.]+)?$/);
    }
  });

  test("the lock file has the same ones", () => {
    const { dependencies, devDependencies } = lock.packages[""] ?? {};
    expect(dependencies).toEqual(manifest.dependencies);
    expect(devDependencies).toEqual(manifest.devDependencies);
    for (const [name, version] of Object.entries({ ...dependencies, ...devDependencies })) {
      expect(lock.packages[`node_modules/${name}`]?.version, name).toBe(version);
    }
    for (const { name, version } of packages) {
      const override = manifest.overrides[name];
      if (override) expect(version, name).toBe(override);
    }
  });

  test("all of it comes from the registry: nothing from git, a file or a URL", () => {
    for (const { path, version, resolved, link } of packages) {
      expect(version, path).toMatch(/^\d+\.\d+\.\d+(-[\w.-]+)?$/);
      expect({ resolved, link }, path).toEqual({});
    }
  });

  /** Whether npm would install it on such a machine. */
  const fits = (fields: (typeof packages)[number], os: string, cpu: string, libc: string) =>
    (fields.os?.includes(os) ?? true) && (fields.cpu?.includes(cpu) ?? true) && (fields.libc?.includes(libc) ?? true);

  test.each(["x64", "arm64"])("what is installed on Linux, %s, has a hash", (cpu) => {
    const installed = packages.filter((fields) => fits(fields, "linux", cpu, "glibc"));
    expect(installed.length).toBeGreaterThan(400);
    for (const { path, integrity } of installed) expect(integrity, path).toMatch(/^sha512-[\w+/]{86}==$/);
  });

  test("what has none is a tool's program for another kind of machine, which docs/security.md names", async () => {
    const document = await read("docs/security.md");
    for (const { path, name, integrity, optional, os } of packages) {
      if (integrity) continue;
      expect({ optional, isForSome: os !== undefined }, path).toEqual({ optional: true, isForSome: true });
      const tool = `${name.split("/")[0]}/`;
      expect(document, path).toContain(`\`${tool}\``);
    }
  });
});

describe("no package runs code while it is installed", () => {
  test("those that would like to are named", () => {
    const wanting = packages.filter(({ hasInstallScript }) => hasInstallScript).map(({ name }) => name);
    expect(Object.keys(manifest.allowScripts).toSorted()).toEqual([...new Set(wanting)].toSorted());
    expect(Object.values(manifest.allowScripts)).not.toContain(true);
  });

  test("by the settings of this project, whatever npm's version", async () => {
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
    // It is not for another reason that it has not run.
    expect(await install("--ignore-scripts=false")).toBe(true);
  });
});

test("what the service is made of may be used by anybody: permissive licenses only", () => {
  const permissive = ["MIT", "ISC", "0BSD", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "BlueOak-1.0.0"];
  const used = new Set(packages.filter(({ dev }) => !dev).map(({ license }) => license));
  expect([...used].filter((license) => !permissive.includes(license ?? ""))).toEqual(["(MIT OR CC0-1.0)"]);
});

const via = z.union([z.string(), z.object({ name: z.string(), url: z.string(), title: z.string() })]);
const report = z.object({
  auditReportVersion: z.literal(2),
  vulnerabilities: z.record(z.string(), z.object({ via: z.array(via), nodes: z.array(z.string()) })),
});

test("every known advisory is explained in docs/security.md", async ({ skip }) => {
  const flags = ["audit", "--json", "--fetch-retries=0", "--fetch-timeout=20000"];
  const { stdout } = await run("npm", flags, { cwd: ROOT, maxBuffer: 2 ** 26 }).catch((error) => error);
  const audit = report.safeParse(JSON.parse(stdout || "{}"));
  if (!audit.success) return skip("The registry does not answer npm audit here: run it where it does.");

  const document = await read("docs/security.md");
  const [, developing = ""] = document.split("### Only for development");
  const isExplained = (url: string, name: string, nodes: string[]) =>
    document.includes(url.slice(url.lastIndexOf("/") + 1)) ||
    // What is not in the service is explained by its name.
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
