import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { examples, recipes, useExamples } from "../support/examples.ts";
import { describeWithPrograms, ROOT } from "../support/run.ts";

// Programs of docs/api.md in the languages that test/api/examples.test.ts leaves out, and their handling of errors.

const { host, run, write, prepare, testBlocks } = useExamples();
const programs = examples.filter(({ language }) => language !== "sh");

type Fault = (response: ServerResponse) => void;

const DETAIL = "Chain 1 (Ethereum) is still being indexed.";
const refuse: Fault = (response) =>
  response
    .writeHead(503, { "Content-Type": "application/problem+json", "Retry-After": "1" })
    .end(JSON.stringify({ type: "/docs#problem-not-indexed", title: "Not indexed yet", status: 503, detail: DETAIL }));

/** Starts a proxy to the API that fails some requests, by number. */
const startFaultyProxy = async (faultAt: (request: number) => Fault | undefined) => {
  const requests: { url: string; time: number }[] = [];
  const server = createServer(async ({ url = "" }, response) => {
    const fault = faultAt(requests.length);
    requests.push({ url, time: performance.now() });
    if (fault) {
      fault(response);
      return;
    }
    const real = await fetch(`http://${host()}${url}`);
    response.writeHead(real.status, [...real.headers].flat()).end(await real.text());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { host: `127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
};

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

for (const { language, program, blocks } of recipes.filter(({ language }) => language !== "ts")) {
  describeWithPrograms([program], `docs/recipes.md, ${language}`, () => {
    testBlocks(blocks);
  });
}

for (const { language, program, blocks } of programs) {
  describeWithPrograms([program], `docs/api.md, ${language}`, () => {
    // The fast suite runs TypeScript.
    if (language !== "ts") testBlocks(blocks);

    const clients = blocks.filter(([, { code }]) => code.includes("Retry-After"));

    test.for(clients)("a client waits for Retry-After: %s", async ([, client]) => {
      const proxy = await startFaultyProxy((request) => (request === 0 ? refuse : undefined));
      const { exitCode, stdout, stderr } = await (await prepare(client, proxy.host))();
      expect(exitCode, stderr).toBe(0);
      expect(stdout).toBe(client.output?.text);
      const [refused, repeated] = proxy.requests;
      expect(repeated?.url).toBe(refused?.url);
      expect((repeated?.time ?? 0) - (refused?.time ?? 0)).toBeGreaterThanOrEqual(1000);
    });

    test.for(clients)("a client retries once, then fails with the reason: %s", async ([, client]) => {
      const proxy = await startFaultyProxy(() => refuse);
      const { exitCode, stdout, stderr } = await (await prepare(client, proxy.host))();
      expect(exitCode).not.toBe(0);
      expect(stdout).toBe("");
      expect(stderr).toContain(DETAIL);
      expect(proxy.requests).toHaveLength(2);
    });

    test.for(blocks)("a program never treats an error as an answer: %s", async ([, block]) => {
      let fault: Fault | undefined;
      let failing = 0;
      const proxy = await startFaultyProxy((request) => (request === failing ? fault : undefined));
      const start = await prepare(block, proxy.host);
      await start();
      const count = proxy.requests.length;
      expect(count).toBeGreaterThan(0);

      const mistaken: string[] = [];
      const startFailing = async (name: string, wrong: Fault, request: number) => {
        fault = wrong;
        failing = request;
        proxy.requests.length = 0;
        const { exitCode, stdout } = await start();
        // Output before the fault comes from real answers.
        const [before = "", unknown] = stdout.split("don't know");
        const wasAskedAgain = proxy.requests.length > count && stdout === block.output?.text;
        const isKnownUnknown = exitCode !== 0 || unknown !== undefined || wasAskedAgain;
        if (!isKnownUnknown || !block.output?.text.startsWith(before)) {
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
  });
}

test("the TypeScript programs of docs/api.md and docs/recipes.md pass a strict type check", async () => {
  const blocks = [...programs, ...recipes].flatMap(({ language, blocks }) => (language === "ts" ? blocks : []));
  for (const [index, [, { code }]] of blocks.entries()) write(`typed-${index}.mts`, code);
  const { stdout } = await run(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc")]);
  expect(stdout).toBe("");
});
