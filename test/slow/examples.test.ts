import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { type Dev, launchDev, sandboxFolder } from "../support/dev.ts";
import type { Description } from "../support/openapi.ts";

// What the documents tell people to try works, and prints what they say.

const ROOT = join(import.meta.dirname, "../..");
const DOCUMENT = "docs/api.md";
const DOCUMENTED_HOST = "127.0.0.1:8080";

const folder = mkdtempSync(join(tmpdir(), "delegation-registry-examples-"));
const sandbox = sandboxFolder("examples");
let dev: Dev;
let host: string;

beforeAll(async () => {
  dev = await launchDev(sandbox);
  host = `127.0.0.1:${dev.apiPort}`;
  await dev.untilReady(110);
});

afterAll(async () => {
  await dev.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** A fenced block, with what it is said to print: the block of json or text that comes next. */
type Block = { line: number; language: string; code: string; output?: Output };
type Output = { language: string; text: string };

const readBlocks = (file: string): Block[] => {
  const text = readFileSync(join(ROOT, file), "utf8");
  const blocks: Block[] = [];
  for (const { 1: language = "", 2: code = "", index } of text.matchAll(/^```(.*)\n([\s\S]*?)^```$/gm)) {
    const line = text.slice(0, index).split("\n").length;
    const previous = blocks.at(-1);
    if (!["json", "text"].includes(language)) blocks.push({ line, language, code });
    else if (previous && !previous.output) previous.output = { language, text: code };
    else throw new Error(`${file}, line ${line}: what prints this?`);
  }
  return blocks;
};

const blocks = readBlocks(DOCUMENT);
const programs = blocks.filter(({ language }) => language !== "sh");
const titled = (list: readonly Block[]) =>
  list.map((block) => {
    const [command, path] = block.code.split(DOCUMENTED_HOST);
    const start = (path ?? command ?? "").slice(0, 40).trim();
    return [`line ${block.line}, ${block.language === "sh" ? start : block.language}`, block] as const;
  });

/** A program that was started and has ended. */
type Run = { exitCode: number; stdout: string; stderr: string };

const INSTALL: Record<string, string> = {
  python3: "apt-get install python3",
  go: "apt-get install golang-go",
};

const run = (command: string, args: readonly string[] = [], env: NodeJS.ProcessEnv = {}, cwd = folder): Promise<Run> =>
  new Promise((resolve, reject) => {
    execFile(command, args, { cwd, env: { ...process.env, ...env } }, (error, stdout, stderr) => {
      if (error?.code === "ENOENT") {
        reject(new Error(`The examples of ${DOCUMENT} need ${command}. Install it: ${INSTALL[command] ?? command}`));
      } else {
        resolve({ exitCode: error ? Number(error.code ?? 1) : 0, stdout, stderr });
      }
    });
  });

const write = (name: string, text: string): string => {
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
};

/** What a line printed, which has to succeed. It is run in the project, beside the sandbox. */
const runLine = async (line: string): Promise<string> => {
  const env = { SANDBOX_DATA: sandbox };
  const { exitCode, stdout, stderr } = await run("sh", ["-c", line.replaceAll(DOCUMENTED_HOST, host)], env, ROOT);
  expect(exitCode, stderr).toBe(0);
  return stdout;
};

/** Makes a block's program ready to be run, any number of times, against a host. */
const prepare = async ({ language, line, code: documented }: Block, host: string): Promise<() => Promise<Run>> => {
  const code = documented.replaceAll(DOCUMENTED_HOST, host);
  const name = `line-${line}`;
  switch (language) {
    case "ts": {
      const file = write(`${name}.mts`, code);
      return () => run(process.execPath, ["--import", import.meta.resolve("tsx"), file]);
    }
    case "python": {
      const file = write(`${name}.py`, code);
      return () => run("python3", [file]);
    }
    case "go": {
      const file = write(`${name}.go`, code);
      const offline = { GOFLAGS: "-mod=mod", GOPROXY: "off", GOTOOLCHAIN: "local", GOCACHE: join(folder, "go-cache") };
      const { exitCode, stderr } = await run("go", ["build", "-p", "1", "-o", name, file], offline);
      expect(exitCode, stderr).toBe(0);
      return () => run(join(folder, name));
    }
    default:
      throw new Error(`${DOCUMENT}, line ${line}: there is no way to run "${language}".`);
  }
};

/** JSON without the white space between its parts. Its numbers stay as they are. */
const compactJson = (json: string) => json.replaceAll(/("(?:[^"\\]|\\.)*")|\s+/g, "$1");

/** Expects what the document says, where … stands for anything. */
const expectOutput = (printed: string, { language, text }: Output) => {
  const tidy = language === "json" ? compactJson : (output: string) => output.replaceAll("\r", "").trim();
  const parts = tidy(text).split("…");
  const pattern = parts.map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&")).join(".+?");
  if (!new RegExp(`^${pattern}$`).test(tidy(printed))) expect(tidy(printed)).toBe(tidy(text));
};

test.for(titled(blocks))(`${DOCUMENT} says what happens: %s`, async ([, block]) => {
  let printed = "";
  if (block.language === "sh") {
    for (const line of block.code.trim().split("\n")) printed += await runLine(line);
  } else {
    const start = await prepare(block, host);
    const { exitCode, stdout, stderr } = await start();
    expect(exitCode, stderr).toBe(0);
    printed = stdout;
  }
  if (block.output) expectOutput(printed, block.output);
});

test("the programs in TypeScript have sound types", async () => {
  const files = programs
    .filter(({ language }) => language === "ts")
    .map(({ line, code }) => write(`typed-${line}.mts`, code));
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  const strict = ["--noEmit", "--strict", "--noUncheckedIndexedAccess"];
  const language = ["--target", "es2022", "--lib", "es2022,dom", "--module", "esnext", "--moduleResolution", "bundler"];
  const { stdout } = await run(process.execPath, [tsc, ...strict, ...language, "--moduleDetection", "force", ...files]);
  expect(stdout).toBe("");
});

type Fault = (response: ServerResponse) => void;

const DETAIL = "Chain 1 (Ethereum) is still being indexed.";
const refuse: Fault = (response) =>
  response
    .writeHead(503, { "Content-Type": "application/problem+json", "Retry-After": "1" })
    .end(JSON.stringify({ type: "/docs#problem-not-indexed", title: "Not indexed yet", status: 503, detail: DETAIL }));

/** The sandbox's API behind a proxy that fails some requests, by their number. */
const startFaultyProxy = async (faultAt: (request: number) => Fault | undefined) => {
  const requests: { url: string; time: number }[] = [];
  const server = createServer(async ({ url = "" }, response) => {
    const fault = faultAt(requests.length);
    requests.push({ url, time: performance.now() });
    if (fault) {
      fault(response);
      return;
    }
    const { status, headers, ...real } = await fetchText(`http://${host}${url}`);
    response.writeHead(status, headers).end(real.body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { host: `127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
};

const fetchText = async (url: string) => {
  const response = await fetch(url);
  return { status: response.status, headers: [...response.headers].flat(), body: await response.text() };
};

const clients = programs.filter(({ code }) => code.includes("Retry-After"));

test.for(titled(clients))("a client of the document waits as long as Retry-After says: %s", async ([, client]) => {
  const proxy = await startFaultyProxy((request) => (request === 0 ? refuse : undefined));
  const start = await prepare(client, proxy.host);
  const { exitCode, stdout, stderr } = await start();
  expect(exitCode, stderr).toBe(0);
  expect(stdout).toBe(client.output?.text);
  const [refused, repeated] = proxy.requests;
  expect(repeated?.url).toBe(refused?.url);
  expect((repeated?.time ?? 0) - (refused?.time ?? 0)).toBeGreaterThanOrEqual(1000);
});

test.for(titled(clients))("a client of the document asks again only once, and tells why: %s", async ([, client]) => {
  const proxy = await startFaultyProxy(() => refuse);
  const start = await prepare(client, proxy.host);
  const { exitCode, stdout, stderr } = await start();
  expect(exitCode).not.toBe(0);
  expect(stdout).toBe("");
  expect(stderr).toContain(DETAIL);
  expect(proxy.requests).toHaveLength(2);
});

const WRONG_STATUS: Record<string, Fault> = {
  "a proxy's error": (response) => response.writeHead(502, { "Content-Type": "text/html" }).end("<h1>Bad gateway</h1>"),
  "an error that says true": (response) => response.writeHead(503).end("true"),
  "a success that is not a 200": (response) => response.writeHead(203).end("true"),
  "no answer at all": (response) => response.destroy(),
};

const WRONG_BODY: Record<string, Fault> = {
  "a page": (response) => response.writeHead(200, { "Content-Type": "text/html" }).end("<h1>Welcome</h1>"),
  nothing: (response) => response.writeHead(200).end(),
  "an answer that breaks off": (response) =>
    response.writeHead(200, { "Content-Length": "100" }).write("[]", () => response.destroy()),
};

test.for(titled(programs))("a program of the document takes no error for an answer: %s", async ([, program]) => {
  let fault: Fault | undefined;
  let failing = 0;
  const proxy = await startFaultyProxy((request) => (request === failing ? fault : undefined));
  const start = await prepare(program, proxy.host);
  await start();
  const count = proxy.requests.length;
  expect(count).toBeGreaterThan(0);

  const mistaken: string[] = [];
  const startFailing = async (name: string, wrong: Fault, request: number) => {
    fault = wrong;
    failing = request;
    proxy.requests.length = 0;
    const { exitCode, stdout } = await start();
    // What it printed before came from real answers.
    const [before = "", unknown] = stdout.split("don't know");
    const isKnownUnknown = exitCode !== 0 || unknown !== undefined;
    if (!isKnownUnknown || !program.output?.text.startsWith(before)) {
      mistaken.push(`${name} at request ${request}: ${exitCode} ${stdout}`);
    }
  };
  for (const [name, wrong] of Object.entries(WRONG_STATUS)) await startFailing(name, wrong, 0);
  // A check, a balance and a list read their bodies in different ways.
  for (const [name, wrong] of Object.entries(WRONG_BODY)) {
    for (let request = 0; request < count && request < 3; request++) await startFailing(name, wrong, request);
  }
  expect(mistaken).toEqual([]);
});

test("README's lines to try work", async () => {
  const lines = readFileSync(join(ROOT, "README.md"), "utf8").match(/^curl .*$/gm) ?? [];
  expect(lines).not.toEqual([]);
  for (const line of lines) {
    const printed = await runLine(`${line} --fail`);
    expect(() => JSON.parse(printed)).not.toThrow();
  }
});

test("the parameters' examples in /openapi.json give the responses' examples", async () => {
  const { paths } = (await fetch(`http://${host}/openapi.json`).then((response) => response.json())) as Description;
  for (const [path, { get }] of Object.entries(paths)) {
    const { parameters = [], responses } = get;
    const ask = (isGiven: (parameter: (typeof parameters)[number]) => boolean) => {
      const query = new URLSearchParams();
      let filled = path;
      for (const parameter of parameters.filter(isGiven)) {
        const { name, schema } = parameter;
        expect(schema.example, `${path}: ${name} needs an example`).toBeDefined();
        if (parameter.in === "path") filled = filled.replace(`{${name}}`, String(schema.example));
        else query.set(name, String(schema.example));
      }
      return fetch(`http://${host}${filled}?${query}`);
    };
    const least = await ask(({ required }) => required === true);
    expect(least.status, path).toBe(200);

    const whole = await ask(({ required, schema }) => required === true || schema.example !== undefined);
    expect(whole.status, path).toBe(200);
    const { example } = responses[200]?.content?.["application/json"] ?? {};
    if (path.startsWith("/registry/")) expect(example, `${path} needs an example`).toBeDefined();
    if (example !== undefined) expect(await whole.json(), path).toEqual(example);
  }
});
