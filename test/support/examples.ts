import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Api, createSampleDatabase, FRESH_FOR_A_DAY, launchApi } from "./api.ts";
import { ROOT } from "./run.ts";
import { createDatabase } from "./setup.ts";

// Runs the examples of docs/api.md and docs/recipes.md against an API over the sandbox's samples.

type Document = "docs/api.md" | "docs/recipes.md" | "client/README.md";
export const DOCUMENTED_HOST = "127.0.0.1:8080";

/** A fenced block with its expected output, which is the next block of json or text. */
export type Block = { line: number; language: string; code: string; output?: Output };
type Output = { language: string; text: string };

export const readBlocks = (document: Document): Block[] => {
  const text = readFileSync(join(ROOT, document), "utf8");
  const blocks: Block[] = [];
  for (const { 1: language = "", 2: code = "", index } of text.matchAll(/^```(.*)\n([\s\S]*?)^```$/gm)) {
    const line = text.slice(0, index).split("\n").length;
    const previous = blocks.at(-1);
    if (!["json", "text"].includes(language)) blocks.push({ line, language, code });
    else if (previous && !previous.output) previous.output = { language, text: code };
    else throw new Error(`${document}, line ${line}: output without a block that prints it.`);
  }
  for (const { line, language } of blocks) {
    if (!PROGRAMS[language]) throw new Error(`${document}, line ${line}: no program runs "${language}".`);
  }
  return blocks;
};

/** Program that runs a block, by language. */
const PROGRAMS: Record<string, string> = { sh: "curl", ts: "node", python: "python3", go: "go" };

/** Languages of a document with their program and blocks. Blocks have a title for test.for(). */
const readExamples = (document: Document) => {
  const blocks = readBlocks(document);
  return Object.entries(PROGRAMS).map(([language, program]) => ({
    document,
    language,
    program,
    blocks: blocks
      .filter((block) => block.language === language)
      .map((block) => {
        const start = (block.code.split(DOCUMENTED_HOST)[1] ?? block.code).slice(0, 40).trim();
        return [`line ${block.line}${language === "sh" ? `, ${start}` : ""}`, block] as const;
      }),
  }));
};

export const examples = readExamples("docs/api.md");
export const recipes = readExamples("docs/recipes.md").filter(({ blocks }) => blocks.length > 0);

/** Recipes that find what an earlier run has left. */
const isRepeatable = ({ code }: Block): boolean => /create table|DISCORD_API/.test(code);

const TOKEN = "token of a bot";
/** The members of the recipe, by whether their wallet may act. */
const [ALLOWED, REMOVED] = ["80351110224678912", "53908232506183680"] as const;
const ROLE_PATH = /^\/guilds\/81384788765712384\/members\/(\d+)\/roles\/41771983423143936$/;

/** Stands in for Discord's API with one role of one guild. */
const launchDiscord = async () => {
  const holders = new Set<string>();
  const server = createServer(({ method, url = "", headers }, response) => {
    const [, member] = ROLE_PATH.exec(url) ?? [];
    if (!member || headers.authorization !== `Bot ${TOKEN}`) response.writeHead(400).end();
    else {
      if (method === "PUT") holders.add(member);
      if (method === "DELETE") holders.delete(member);
      response.writeHead(204).end();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () => {
    server.closeAllConnections();
    server.close();
  };
  return { holders, stop, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
};

type Run = { exitCode: number; stdout: string; stderr: string };

/** Sets up a folder and an API for the examples of a test file. */
export const useExamples = () => {
  const folder = mkdtempSync(join(tmpdir(), "delegation-registry-examples-"));
  let api: Api;
  let databaseUrl: string;
  let discord: Awaited<ReturnType<typeof launchDiscord>>;
  /** What recipes need of their own. */
  let env: NodeJS.ProcessEnv;
  beforeAll(async () => {
    databaseUrl = await createSampleDatabase();
    discord = await launchDiscord();
    env = { DATABASE_URL: await createDatabase(), DISCORD_API: discord.url, DISCORD_TOKEN: TOKEN };
    api = await launchApi({ databaseUrl, env: FRESH_FOR_A_DAY });
  });
  afterAll(async () => {
    await api?.stop();
    discord?.stop();
    rmSync(folder, { recursive: true, force: true });
  });
  const host = () => new URL(api.url).host;

  const run = (command: string, args: readonly string[] = [], env: NodeJS.ProcessEnv = {}, cwd = folder) =>
    new Promise<Run>((resolve) => {
      execFile(command, args, { cwd, env: { ...process.env, ...env } }, (error, stdout, stderr) =>
        resolve({ exitCode: error ? Number(error.code ?? 1) : 0, stdout, stderr }),
      );
    });

  const write = (name: string, text: string): string => {
    const file = join(folder, name);
    writeFileSync(file, text);
    return file;
  };

  // Examples import the client by its name: tsx and tsc find its sources. test/client/package.test.ts installs it.
  const compilerOptions = {
    strict: true,
    noUncheckedIndexedAccess: true,
    noEmit: true,
    target: "es2022",
    lib: ["es2022", "dom"],
    types: ["node"],
    module: "esnext",
    moduleResolution: "bundler",
    moduleDetection: "force",
    allowImportingTsExtensions: true,
    paths: {
      "delegation-registry-client": [join(ROOT, "client/src/index.ts")],
      "delegation-registry-client/*": [join(ROOT, "client/src/*.ts")],
    },
  };
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  write("tsconfig.json", JSON.stringify({ compilerOptions, include: ["typed-*.mts"] }));

  /** Runs a line of shell in the project folder with DATABASE_URL, and returns its output. */
  const runLine = async (line: string): Promise<string> => {
    const args = ["-c", line.replaceAll(DOCUMENTED_HOST, host())];
    const { exitCode, stdout, stderr } = await run("sh", args, { DATABASE_URL: databaseUrl }, ROOT);
    expect(exitCode, stderr).toBe(0);
    return stdout;
  };

  /** Prepares a block's program to run any number of times against a host. */
  const prepare = async ({ language, line, code: documented }: Block, target = host()): Promise<() => Promise<Run>> => {
    const code = documented.replaceAll(DOCUMENTED_HOST, target);
    const name = `line-${line}`;
    if (language === "ts") {
      const file = write(`${name}.mts`, code);
      return () => run(process.execPath, ["--import", import.meta.resolve("tsx"), file], env);
    }
    if (language === "python") {
      const file = write(`${name}.py`, code);
      return () => run("python3", [file], env);
    }
    const file = write(`${name}.go`, code);
    const offline = { GOFLAGS: "-mod=mod", GOPROXY: "off", GOTOOLCHAIN: "local", GOCACHE: join(folder, "go-cache") };
    const { exitCode, stderr } = await run("go", ["build", "-p", "1", "-o", name, file], offline);
    expect(exitCode, stderr).toBe(0);
    return () => run(join(folder, name));
  };

  /** Runs a block, and expects the output that the document shows. */
  const expectDocumented = async (block: Block): Promise<void> => {
    let printed = "";
    if (block.language === "sh") {
      for (const line of block.code.trim().split("\n")) printed += await runLine(line);
    } else {
      const { exitCode, stdout, stderr } = await (await prepare(block))();
      expect(exitCode, stderr).toBe(0);
      printed = stdout;
    }
    if (block.output) expectOutput(printed, block.output);
  };

  /** Runs a recipe twice. A reader that began again would store a change twice, which its table refuses. */
  const expectRepeatable = async (block: Block): Promise<void> => {
    discord.holders.clear();
    discord.holders.add(REMOVED);
    for (const _ of ["first", "second"]) await expectDocumented(block);
    if (block.code.includes("DISCORD_API")) expect([...discord.holders]).toEqual([ALLOWED]);
  };

  const testBlocks = (blocks: readonly (readonly [title: string, Block])[]): void => {
    const [repeatable, others] = [true, false].map((is) => blocks.filter(([, block]) => isRepeatable(block) === is));
    test.for(others ?? [])("prints the documented output: %s", ([, block]) => expectDocumented(block));
    test.for(repeatable ?? [])("prints the same when it goes on: %s", ([, block]) => expectRepeatable(block));
  };

  return { host, run, write, runLine, prepare, testBlocks };
};

/** Removes white space between tokens. Numbers keep their digits. */
const compactJson = (json: string) => json.replaceAll(/("(?:[^"\\]|\\.)*")|\s+/g, "$1");

/** Expects the documented output, in which … matches any text. */
export const expectOutput = (printed: string, { language, text }: Output) => {
  const tidy = language === "json" ? compactJson : (output: string) => output.replaceAll("\r", "").trim();
  const parts = tidy(text).split("…");
  const pattern = parts.map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&")).join(".+?");
  if (!new RegExp(`^${pattern}$`).test(tidy(printed))) expect(tidy(printed)).toBe(tidy(text));
};
