import { IncomingMessage } from "node:http";
import { connect } from "node:net";
import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { headerLines, type Incoming, type Outgoing, type Reply } from "../../api/exchange.ts";
import { type RunningServer, startServer } from "../../api/server.ts";
import { type Random, seededRandom } from "../support/random.ts";
import { until } from "../support/setup.ts";

// Plain requests are read and answered without Node's HTTP; all others by it. Nobody may notice which it was. An empty
// line before a request means nothing, and makes it a matter of Node's, so each can be asked both ways.

const QUIET_MS = 100;
const MOST_WAITS = 30;
const LONG_BODY = "x".repeat(100_000);

let asked = 0;
/** How many of them Node has read. */
let readByNode = 0;

/** Tells what was understood of a request. */
const echo = ({ method, url, httpVersion, headers }: Incoming): Reply => {
  const json = headerLines({ "Content-Type": "application/json", "X-Colons": "7: 8", "X-Empty": "" });
  switch (url) {
    case "/nothing":
      return { status: 304, headers: headerLines({ ETag: '"x"' }), body: null };
    case "/bytes":
      return { status: 200, headers: json, body: Buffer.from("bytes, é") };
    case "/umlaut":
      return { status: 404, headers: json, body: "ä, 雪" };
    case "/long":
      return { status: 200, headers: json, body: LONG_BODY };
    case "/parts":
      return { status: 200, headers: json, body: Readable.from(["one, ", "", "two, ", LONG_BODY]) };
    case "/broken":
      return { status: 200, headers: json, body: Readable.from(breakOff()) };
    default:
      return { status: 200, headers: json, body: JSON.stringify({ method, url, httpVersion, ...headers }) };
  }
};

function* breakOff() {
  yield "one, ";
  throw new Error("There is no more.");
}

const answer = (incoming: Incoming, outgoing: Outgoing): void => {
  asked++;
  if (incoming instanceof IncomingMessage) readByNode++;
  if (incoming.url?.startsWith("/slow")) setTimeout(() => outgoing.reply(echo(incoming)), 20);
  else outgoing.reply(echo(incoming));
};

let server: RunningServer;
beforeAll(async () => {
  server = await startServer(answer, "127.0.0.1", 0, () => {});
});
afterAll(() => server.stop());

/** A connection to the server, and all that came back over it. */
const open = async () => {
  const socket = connect({ port: server.port, host: "127.0.0.1", noDelay: true, allowHalfOpen: true });
  onTestFinished(() => {
    socket.destroy();
  });
  const chunks: Buffer[] = [];
  let isClosed = false;
  socket.on("data", (chunk) => chunks.push(chunk));
  socket.on("error", () => {});
  socket.on("close", () => {
    isClosed = true;
  });
  socket.on("end", () => socket.end());
  await new Promise((resolve) => socket.once("connect", resolve));
  const read = () => Buffer.concat(chunks).toString("latin1");
  return { socket, read, isClosed: () => isClosed };
};

/** What comes back for some bytes, and then for a plain request: as they are, and read by Node in any case. */
const askBothWays = async (bytes: string): Promise<[asItIs: string, byNode: string]> => {
  const both = [await open(), await open()] as const;
  const read = ({ read, isClosed }: (typeof both)[number]) =>
    `${read().replace(/^Date: .*$/gm, "Date: now")}${isClosed() ? "(closed)" : ""}`;
  const untilQuiet = async (): Promise<[string, string]> => {
    let before = "";
    for (let waits = 0; ; waits++) {
      await sleep(QUIET_MS);
      const now: [string, string] = [read(both[0]), read(both[1])];
      if ((now[0] === now[1] && now.join() === before) || waits >= MOST_WAITS) return now;
      before = now.join();
    }
  };
  for (const [index, { socket }] of both.entries()) socket.write(`${index === 0 ? "" : "\r\n"}${bytes}`, "latin1");
  await untilQuiet();
  for (const { socket } of both) socket.write(get("/after"));
  const answers = await untilQuiet();
  for (const { socket } of both) socket.destroy();
  return answers;
};

const get = (path: string, ...headers: string[]) =>
  `GET ${path} HTTP/1.1\r\n${["Host: x", ...headers].map((header) => `${header}\r\n`).join("")}\r\n`;

test.for(["/", "/a?b=c&d=%20+", "/nothing", "/bytes", "/umlaut", "/long", "/parts", "/broken"])(
  "what is answered to %s is the same to the last byte, whoever has read it",
  async (path) => {
    const request = get(path, "Accept: */*", "x-Request-ID:  7 \t", "Connection: Keep-Alive", "Empty:");
    const [asItIs, byNode] = await askBothWays(request);
    expect(asItIs).toMatch(/^HTTP\/1\.1 [234]/);
    expect(asItIs).toBe(byNode);
  },
);

const HEADERS = [
  "Host: y",
  "Connection: close",
  "Connection: keep-alive",
  "Connection: upgrade",
  "Upgrade: websocket",
  "Content-Length: 0",
  "Content-Length: 5",
  "Transfer-Encoding: chunked",
  "Expect: 100-continue",
  "TE: trailers",
  "Set-Cookie: a=b",
  "Cookie: a=b; c=d",
  "X-API-KEY: k",
  "X-Forwarded-For: 1.2.3.4, 5.6.7.8",
  "If-None-Match: *",
  "__proto__: x",
  "constructor: x",
  " folded: x",
  "spaced : x",
  ": nameless",
  "no colon",
  "\tX: tab",
] as const;
const PIECES = [
  "\r",
  "\n",
  "\r\n",
  "\r\n\r\n",
  " ",
  "\t",
  "\0",
  "\x7f",
  "\xe9",
  "\xa0",
  ":",
  "#",
  "//",
  "HTTP/1.0",
  "{}",
] as const;

/** A request as hardly anybody would send it. */
const strange = (random: Random): string => {
  const headers = Array.from({ length: random.integer(0, 3) }, () => random.pick(HEADERS));
  let text = get(random.pick(["/", "/a/b?c=d", "/?a=%20+", "//a", "/a#b", "http://x/", "*"]), ...headers);
  for (let count = random.integer(0, 2); count > 0; count--) {
    const at = random.integer(0, text.length);
    text = `${text.slice(0, at)}${random.pick(PIECES)}${text.slice(at + random.integer(0, 2))}`;
  }
  return text;
};

test("strange requests are understood alike, and refused alike", { timeout: 120_000 }, async () => {
  const random = seededRandom("api/plain-requests.test.ts");
  const requests = Array.from({ length: 1_500 }, () => strange(random));
  let [answered, refused] = [0, 0];
  const before = { asked, readByNode };
  for (let start = 0; start < requests.length; start += 75) {
    await Promise.all(
      requests.slice(start, start + 75).map(async (request) => {
        const [asItIs, byNode] = await askBothWays(request);
        expect(asItIs, JSON.stringify(request)).toBe(byNode);
        if (asItIs.startsWith("HTTP/1.1 200")) answered++;
        if (asItIs.startsWith("HTTP/1.1 4")) refused++;
      }),
    );
  }
  console.log(`${requests.length} requests: ${answered} answered, ${refused} refused`);
  expect(Math.min(answered, refused)).toBeGreaterThan(100);
  // Half of them by Node in any case; of the others, many by both.
  expect(readByNode - before.readByNode).toBeLessThan((asked - before.asked) * 0.9);
});

test("over one connection, requests are answered in order, in whatever pieces they come", async () => {
  const random = seededRandom("api/plain-requests.test.ts");
  const { socket, read } = await open();
  const paths = Array.from({ length: 300 }, (_, index) => `/${random.pick(["slow", "fast"])}/${index}`);
  const bytes = paths.map((path) => get(path)).join("");
  const length = Math.round(bytes.length / paths.length);
  for (let sent = 0; sent < bytes.length; ) {
    // The first hundred one by one, each as soon as the one before is answered; then anyhow.
    const isOrderly = sent < length * 100;
    const end = isOrderly ? bytes.indexOf("\r\n\r\n", sent) + 4 : sent + random.integer(1, 4 * length);
    socket.write(bytes.slice(sent, end));
    sent = end;
    if (isOrderly) {
      const count = bytes.slice(0, sent).split("\r\n\r\n").length - 1;
      await until("it is answered", async () => read().split("HTTP/1.1 200 OK").length > count, 10);
    } else {
      await sleep(random.integer(0, 2));
    }
  }
  await until("all are answered", async () => read().split("HTTP/1.1 200 OK").length > paths.length, 10);
  expect([...read().matchAll(/"url":"(.*?)"/g)].map(([, path]) => path)).toEqual(paths);
});

test("a body that comes in parts is followed by the next answer, over the same connection", async () => {
  const { socket, read } = await open();
  socket.write(get("/parts"));
  await until("the first answer is there", async () => read().endsWith("\r\n0\r\n\r\n"), 10);
  socket.write(get("/next"));
  await until("so is the next", async () => read().includes('"url":"/next"'), 10);
  expect(read()).toContain(`186a0\r\n${LONG_BODY}\r\n0\r\n\r\nHTTP/1.1 200 OK`);
});

test("a client that has nothing more to ask is answered before the connection ends", async () => {
  const { socket, read, isClosed } = await open();
  socket.end(get("/slow"));
  await until("it is closed", async () => isClosed(), 10);
  expect(read()).toContain('"url":"/slow"');
});

test("nobody is answered faster than it reads, and all is answered in the end", async () => {
  const { socket, read } = await open();
  socket.pause();
  const before = asked;
  const count = 400;
  for (let sent = 0; sent < count; sent++) {
    socket.write(get("/long"));
    await sleep(1);
  }
  await sleep(200);
  // Some 40 MB in all, of which the kernel takes a few.
  expect(asked - before).toBeLessThan(count / 2);
  socket.resume();
  await until("all have come", async () => read().split("HTTP/1.1 200 OK").length > count, 20);
});

test("requests that come too early are answered, also by who asks nothing more", async () => {
  const { socket, read, isClosed } = await open();
  socket.write(get("/slow/1"));
  await sleep(5);
  socket.end(get("/fast/2"));
  await until("it is closed", async () => isClosed(), 10);
  expect([...read().matchAll(/"url":"(.*?)"/g)].map(([, path]) => path)).toEqual(["/slow/1", "/fast/2"]);
});

test("bodies in parts leave nothing behind on their connection", async () => {
  const warnings: string[] = [];
  const warn = ({ name }: Error) => warnings.push(name);
  process.on("warning", warn);
  onTestFinished(() => {
    process.off("warning", warn);
  });
  const { socket, read } = await open();
  for (let count = 1; count <= 15; count++) {
    socket.write(get("/parts"));
    await until("it is answered", async () => read().split("\r\n0\r\n\r\n").length > count, 10);
  }
  expect(warnings).toEqual([]);
});

/** A server that gives one answer, to everything. */
const serve = async (answer: (outgoing: Outgoing) => void): Promise<RunningServer> => {
  const other = await startServer(
    (_, outgoing) => answer(outgoing),
    "127.0.0.1",
    0,
    () => {},
  );
  onTestFinished(() => other.stop());
  return other;
};

test("a body that nobody reads any more is told so, and why: not what went wrong with the connection", async () => {
  let reason: (Error & { code?: string }) | null | undefined;
  const body = new Readable({
    read() {
      this.push("x".repeat(10_000));
    },
    destroy(error, done) {
      reason = error;
      done(error);
    },
  });
  const { port } = await serve((outgoing) => outgoing.reply({ status: 200, headers: "", body }));
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => {});
  socket.write(get("/"));
  await new Promise((resolve) => socket.once("data", resolve));
  socket.resetAndDestroy();
  await until("the body is given up", async () => reason !== undefined, 10);
  expect(reason?.code).toBe("ERR_STREAM_PREMATURE_CLOSE");
});

test("a server that is to end does not wait for who never reads", { timeout: 20_000 }, async () => {
  const other = await serve((outgoing) => outgoing.reply({ status: 200, headers: "", body: "x".repeat(50_000_000) }));
  const socket = connect(other.port, "127.0.0.1").pause();
  socket.on("error", () => {});
  socket.write(get("/"));
  await sleep(200);
  const startedAt = performance.now();
  await other.stop();
  expect((performance.now() - startedAt) / 1000).toBeLessThan(10);
});

test("what comes too early is kept for so many connections, and no more", async () => {
  let begun = 0;
  const { port } = await serve(() => {
    begun++;
  });
  const count = 1_500;
  let closed = 0;
  const sockets = await Promise.all(
    Array.from({ length: count }, async () => {
      const socket = connect(port, "127.0.0.1");
      onTestFinished(() => {
        socket.destroy();
      });
      socket.on("error", () => {}).on("close", () => closed++);
      await new Promise((resolve) => socket.once("connect", resolve));
      socket.write(get("/"));
      return socket;
    }),
  );
  await until("all are under way", async () => begun === count, 20);
  for (const socket of sockets) socket.write(get("/early"));
  // 20,000 requests in all, for which each of these counts as 17.
  await until("some are closed", async () => closed >= count - Math.ceil(20_000 / 16), 10);
  expect(closed).toBeLessThan(count / 2);
});

test("no header can hold another one", async () => {
  let refusal: unknown;
  const { port } = await serve((outgoing) => {
    try {
      outgoing.reply({ status: 200, headers: headerLines({ Link: "<x>\r\nSet-Cookie: a=b" }), body: "" });
    } catch (error) {
      refusal = error;
      outgoing.reply({ status: 500, headers: "", body: String(outgoing.headersSent) });
    }
  });
  const response = await fetch(`http://127.0.0.1:${port}/`, { headers: { Connection: "keep-alive" } });
  expect([response.status, await response.text(), response.headers.get("set-cookie")]).toEqual([500, "false", null]);
  expect(String(refusal)).toContain("Link has a character that no header may have");
});
