import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { compileContracts } from "../../local/compile-contracts.ts";
import { findHistoryStart, sendSampleHistory } from "../../local/sample-history.ts";
import { createSampleDatabase, FRESH_FOR_A_DAY, launchApi } from "./api.ts";
import { type Block, DOCUMENTED_HOST, readBlocks } from "./examples.ts";
import { ROOT } from "./run.ts";
import { launchChain } from "./setup.ts";

// The client as its users have it: packed, and installed in a project of its own.

const run = promisify(execFile);
const DOCUMENTED_RPC = "127.0.0.1:8545";

/** The programs of client/README.md. */
export const clientExamples: readonly Block[] = readBlocks("client/README.md").filter(
  ({ language }) => language === "ts",
);

export const nameOf = ({ line }: Block): string => `line-${line}`;

/** Creates an empty project, and installs the packed client in it without network. */
const installClient = async () => {
  const folder = mkdtempSync(join(tmpdir(), "delegation-registry-client-"));
  const packs = join(folder, "packs");
  mkdirSync(packs);
  // This project's .npmrc turns scripts off, and with them prepack, which builds the package.
  const pack = ["pack", "--ignore-scripts=false", "--pack-destination", packs];
  await run("npm", pack, { cwd: join(ROOT, "client") });
  const packed = readdirSync(packs).map((file) => join(packs, file));

  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, type: "module" }));
  await run("npm", ["install", "--offline", "--no-audit", ...packed], { cwd: folder });
  const installed = join(folder, "node_modules/delegation-registry-client");
  // What the examples need besides the client.
  mkdirSync(join(folder, "node_modules/@types"));
  for (const name of ["viem", "@types/node"]) {
    symlinkSync(join(ROOT, "node_modules", name), join(folder, "node_modules", name));
  }

  return {
    /** The files of the package. */
    files: readdirSync(installed, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => relative(installed, join(parentPath, name))),
    readInstalled: (path: string) => readFileSync(join(installed, path), "utf8"),
    /** Writes the examples to the project, with the addresses of a service and its chain. */
    writeExamples: ({ apiUrl, rpcUrl }: { apiUrl: string; rpcUrl: string }): void => {
      for (const example of clientExamples) {
        const code = example.code
          .replaceAll(DOCUMENTED_HOST, new URL(apiUrl).host)
          .replaceAll(DOCUMENTED_RPC, new URL(rpcUrl).host);
        writeFileSync(join(folder, `${nameOf(example)}.mts`), code);
      }
    },
    /** Checks the types of files, and returns what the compiler prints. */
    checkTypes: async (compilerOptions: object, files: readonly string[]): Promise<string> => {
      const strict = { strict: true, target: "es2022", module: "nodenext", ...compilerOptions };
      writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: strict, files }));
      const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
      return run(process.execPath, [tsc, "-p", folder]).then(
        ({ stdout }) => stdout,
        ({ stdout }) => stdout,
      );
    },
    /** Runs a compiled program. */
    run: (file: string, ...values: string[]) => run(process.execPath, [file, ...values], { cwd: folder }),
    /** Bundles a program for a browser, minified. */
    bundle: async (code: string): Promise<string> => {
      const { outputFiles } = await build({
        stdin: { contents: code, resolveDir: folder, loader: "ts" },
        bundle: true,
        minify: true,
        format: "esm",
        platform: "browser",
        target: "es2022",
        write: false,
        logLevel: "silent",
      });
      return outputFiles[0]?.text ?? "";
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
};

/**
 * Launches the API over the samples, and a chain with them. The caller stops both. Samples are the same in each block of
 * every such chain, so this chain has the states that were indexed from another one.
 */
const launchSampleService = async () => {
  const chain = await launchChain(1, findHistoryStart());
  await sendSampleHistory(chain, await compileContracts());
  const api = await launchApi({ databaseUrl: await createSampleDatabase(), env: FRESH_FOR_A_DAY });
  return {
    apiUrl: api.url,
    rpcUrl: chain.url,
    stop: async () => {
      await api.stop();
      await chain.stop();
    },
  };
};

/** Installs the client, and writes its examples for a service that it launches. The caller stops it. */
export const launchClient = async () => {
  const client = await installClient();
  const service = await launchSampleService();
  client.writeExamples(service);
  return {
    ...client,
    stop: async () => {
      client.remove();
      await service.stop();
    },
  };
};

export type LaunchedClient = Awaited<ReturnType<typeof launchClient>>;
