import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { clientExamples, type LaunchedClient, launchClient, nameOf } from "../support/client-package.ts";
import { expectOutput, readBlocks } from "../support/examples.ts";
import { ROOT } from "../support/run.ts";

// The client as it is installed. test/slow/browser/client.test.ts checks its declarations, and runs it in a browser.

let client: LaunchedClient;
beforeAll(async () => {
  client = await launchClient();
});
afterAll(() => client?.stop());

const MODULES = readdirSync(join(ROOT, "client/src")).map((file) => file.replace(/\.ts$/, ""));

describe("the package", () => {
  test("has its modules with their types, its documents, and nothing else", () => {
    const built = MODULES.flatMap((name) => [`dist/${name}.js`, `dist/${name}.d.ts`]);
    const others = ["CHANGELOG.md", "LICENSE", "README.md", "bin/delegation-registry-client.js", "package.json"];
    expect(client.files.toSorted()).toEqual([...others, ...built].toSorted());
  });

  test("imports nothing but its own modules at run time, and viem to verify proofs", () => {
    for (const name of MODULES) {
      const own = ["proof", "proven-state", "merkle-proof", "slots"].includes(name)
        ? /^(viem|\.\/[\w-]+\.js)$/
        : /^\.\/[\w-]+\.js$/;
      const imports = client.readInstalled(`dist/${name}.js`).matchAll(/(?:\bfrom|\bimport)\s*\(?\s*"([^"]+)"/g);
      for (const [, path] of imports) expect(path, `dist/${name}.js`).toMatch(own);
    }
    const { dependencies } = JSON.parse(client.readInstalled("package.json"));
    expect(dependencies).toBeUndefined();
  });

  test("has a command that verifies a kept proof", async () => {
    const proof = join(ROOT, "test/support/proof.json");
    const { block } = JSON.parse(readFileSync(proof, "utf8"));
    const command = "node_modules/delegation-registry-client/bin/delegation-registry-client.js";
    const verify = (...values: string[]) => client.run(command, "verify", proof, ...values);
    const { stdout } = await verify("--hash", block.hash);
    expect(stdout).toMatch(/^true: v2 check all on chain 1 at block 2\ndelegate 0x7099[0-9a-f]{36}\nvault 0xf39f/);
    await expect(verify("--hash", block.hash.replace(/.$/, "0"))).rejects.toMatchObject({
      code: 1,
      stdout: "",
      stderr: expect.stringContaining("not proven"),
    });
    await expect(verify("--hash", block.hash, "--chain", "137")).rejects.toMatchObject({ code: 1, stdout: "" });
    // A file may be anybody's.
    const folder = mkdtempSync(join(tmpdir(), "hostile-proof-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const hostile = join(folder, "proof.json");
    writeFileSync(hostile, readFileSync(proof, "utf8").replace('"v2"', '"\\u001b[2K\\rtrue: v2"'));
    await expect(client.run(command, "verify", hostile, "--hash", block.hash)).rejects.toMatchObject({
      stderr: expect.stringMatching(/^[ -~]*\n$/),
    });
    await expect(verify()).rejects.toMatchObject({ code: 2, stderr: expect.stringContaining("Usage") });
  });

  test("needs less than 5,000 bytes, minified and compressed", async () => {
    const code = await client.bundle('export * from "delegation-registry-client";');
    expect(gzipSync(code).length).toBeLessThanOrEqual(5_000);
  });

  test("leaves out of a bundle what is not used", async () => {
    const types = 'import type { Vault } from "delegation-registry-client"; export const none: Vault[] = [];';
    expect((await client.bundle(types)).length).toBeLessThan(100);
    const error = await client.bundle('export { RegistryError } from "delegation-registry-client";');
    expect(error).not.toMatch(/fetch|RateLimit|setTimeout/);
    expect(error.length).toBeLessThan(1_000);
  });
});

describe("client/README.md", () => {
  test("has the command that installs the package", () => {
    const [install] = readBlocks("client/README.md").filter(({ language }) => language === "sh");
    expect(install?.code).toBe(`npm install ${JSON.parse(client.readInstalled("package.json")).name}\n`);
  });

  test("has examples that pass a strict type check with the types of Node, and print the documented output", async () => {
    const files = clientExamples.map((example) => `${nameOf(example)}.mts`);
    const node = { lib: ["es2022"], types: ["node"], skipLibCheck: true, outDir: "compiled" };
    expect(await client.checkTypes(node, files)).toBe("");
    for (const example of clientExamples) {
      const { stdout, stderr } = await client.run(`compiled/${nameOf(example)}.mjs`);
      expect(stderr).toBe("");
      if (!example.output) throw new Error(`client/README.md, line ${example.line}: no output follows.`);
      expectOutput(stdout, example.output);
    }
  });
});
