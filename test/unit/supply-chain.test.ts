import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { ROOT } from "../support/run.ts";

// Versions, hashes, licenses and install scripts of dependencies. test/slow/supply-chain.test.ts runs npm.

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
/** The client, which is a part of this project: its folder, and npm's link to it. */
const OWN = ["client", "node_modules/delegation-registry-client"];
const packages = Object.entries(lock.packages)
  .filter(([path]) => path !== "" && !OWN.includes(path))
  .map(([path, fields]) => ({ path, name: nameOf(path), ...fields }));

describe("package-lock.json", () => {
  test("and package.json have exact versions", () => {
    const wanted = { ...manifest.dependencies, ...manifest.devDependencies, ...manifest.overrides };
    for (const [name, version] of Object.entries(wanted)) {
      expect(version, name).toMatch(/^\d+\.\d+\.\d+(-[\w.]+)?$/);
    }
  });

  test("has the versions of package.json", () => {
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

  test("takes every package from the registry, none from git, a file or a URL, except the client", () => {
    for (const { path, version, resolved, link } of packages) {
      expect(version, path).toMatch(/^\d+\.\d+\.\d+(-[\w.-]+)?$/);
      expect({ resolved, link }, path).toEqual({});
    }
    expect(lock.packages["node_modules/delegation-registry-client"]).toEqual({ resolved: "client", link: true });
  });

  test("has a client without dependencies", () => {
    expect(lock.packages.client?.dependencies).toBeUndefined();
    expect(lock.packages.client?.devDependencies).toBeUndefined();
  });

  /** Returns if npm installs a package on this platform. */
  const fits = (fields: (typeof packages)[number], os: string, cpu: string, libc: string) =>
    (fields.os?.includes(os) ?? true) && (fields.cpu?.includes(cpu) ?? true) && (fields.libc?.includes(libc) ?? true);

  test.each(["x64", "arm64"])("has a hash for every package that is installed on Linux, %s", (cpu) => {
    const installed = packages.filter((fields) => fits(fields, "linux", cpu, "glibc"));
    expect(installed.length).toBeGreaterThan(400);
    for (const { path, integrity } of installed) expect(integrity, path).toMatch(/^sha512-[\w+/]{86}==$/);
  });

  test("lacks hashes only for binaries of other platforms, which docs/security.md lists", async () => {
    const document = await read("docs/security.md");
    for (const { path, name, integrity, optional, os } of packages) {
      if (integrity) continue;
      expect({ optional, isForSome: os !== undefined }, path).toEqual({ optional: true, isForSome: true });
      const tool = `${name.split("/")[0]}/`;
      expect(document, path).toContain(`\`${tool}\``);
    }
  });
});

test("package.json lists every package with an install script, and allows none", () => {
  const wanting = packages.filter(({ hasInstallScript }) => hasInstallScript).map(({ name }) => name);
  expect(Object.keys(manifest.allowScripts).toSorted()).toEqual([...new Set(wanting)].toSorted());
  expect(Object.values(manifest.allowScripts)).not.toContain(true);
});

test("docs/security.md has a reason for each dependency of the service, and no other", async () => {
  const [, table = ""] = /^### Why each is there\n(.*?)^Held back/ms.exec(await read("docs/security.md")) ?? [];
  const cells = table.match(/^\| `.*?(?= \|)/gm) ?? [];
  const named = cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, name]) => name));
  expect(named.toSorted()).toEqual(Object.keys(manifest.dependencies).toSorted());
});

test("the service depends on packages with permissive licenses only", () => {
  const permissive = ["MIT", "ISC", "0BSD", "BSD-2-Clause", "BSD-3-Clause", "Apache-2.0", "BlueOak-1.0.0"];
  const used = new Set(packages.filter(({ dev }) => !dev).map(({ license }) => license));
  expect([...used].filter((license) => !permissive.includes(license ?? ""))).toEqual(["(MIT OR CC0-1.0)"]);
});
