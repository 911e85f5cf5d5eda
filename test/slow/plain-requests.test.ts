import { IncomingMessage } from "node:http";
import { connect } from "node:net";
import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { headerLines, type Incoming, type Outgoing, type Reply } from "../../api/exchange.ts";
import { type RunningServer, startServer } from "../../api/server.ts";
import { type Random, seededRandom } from "../support/random.ts";
import { until } from "../support/setup.ts";

// Plain requests are read and answered without Node's HTTP, all others by it, and a client sees no difference. An empty
// line before a request means nothing, and sends it to Node: so each can be asked both ways.

const QUIET_MS = 100;
const MOST_WAITS = 30;
const LONG_BODY = "x".repeat(100_000);

let asked = 0;
let readByNode = 0;

/** Says what was understood of a request. */
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

/** A server that treats every request alike. */
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

/** A connection, and all that came back over it. */
const open = async (port = server.port) => {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true, allowHalfOpen: true });
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
  const count = (text: string) => read().split(text).length - 1;
  const untilCount = (text: string, wanted: number) =>
    until(
      `there are ${wanted} times ${JSON.stringify(text)}`,
      () => count(text),
      20,
      (found) => found >= wanted,
    );
  const untilClosed = () => until("it is closed", () => isClosed, 10);
  return { socket, read, untilCount, untilClosed, isClosed: () => isClosed };
};

const OK = "HTTP/1.1 200 OK";
const LAST_CHUNK = "\r\n0\r\n\r\n";

const get = (path: string, ...headers: string[]) =>
  `GET ${path} HTTP/1.1\r\n${["Host: x", ...headers].map((header) => `${header}\r\n`).join("")}\r\n`;

const urlsIn = (text: string) => [...text.matchAll(/"url":"(.*?)"/g)].map(([, url]) => url);

/** What comes back for some bytes, and then for a plain request: as they are, and read by Node in any case. */
const askBothWays = async (bytes: string): Promise<[asItIs: string, byNode: string]> => {
  const both = [await open(), await open()] as const;
  const read = ({ read, isClosed }: (typeof both)[number]) =>
    `${read().replace(/^Date: .*$/gm, "Date: now")}${isClosed() ? "(closed)" : ""}`;
  /** Nothing says that no more will come: only that nothing has, for a while. */
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

/** Asks again where they differ: after a request that was not complete, Node's own answer depends on when more comes. */
const expectSame = async (request: string): Promise<string> => {
  for (let isLast = false; ; isLast = true) {
    const [asItIs, byNode] = await askBothWays(request);
    if (isLast) expect(asItIs, JSON.stringify(request)).toBe(byNode);
    if (asItIs === byNode) return asItIs;
  }
};

test("an answer is the same to the last byte, whichever way its request was read", async () => {
  const paths = ["/", "/a?b=c&d=%20+", "/nothing", "/bytes", "/umlaut", "/long", "/parts", "/broken"];
  await Promise.all(
    paths.map(async (path) => {
      const request = get(path, "Accept: */*", "x-Request-ID:  7 \t", "Connection: Keep-Alive", "Empty:");
      expect(await expectSame(request)).toMatch(/^HTTP\/1\.1 [234]/);
    }),
  );
});

const HEADERS = [
  ...(["Host: y", "Connection: close", "Connection: keep-alive", "Connection: upgrade", "Upgrade: websocket"] as const),
  ...["Content-Length: 0", "Content-Length: 5", "Transfer-Encoding: chunked", "Expect: 100-continue", "TE: trailers"],
  ...["Set-Cookie: a=b", "Cookie: a=b; c=d", "X-API-KEY: k", "X-Forwarded-For: 1.2.3.4, 5.6.7.8", "If-None-Match: *"],
  ...["__proto__: x", "constructor: x", " folded: x", "spaced : x", ": nameless", "no colon", "\tX: tab"],
] as const;
const PIECES = [
  ...(["\r", "\n", "\r\n", "\r\n\r\n", " ", "\t", "\0", "\x7f", "\xe9", "\xa0", ":", "#", "//"] as const),
  ...["HTTP/1.0", "{}"],
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

test("strange requests are understood alike, and refused alike, whichever way they are read", async () => {
  const random = seededRandom("slow/plain-requests.test.ts");
  const requests = Array.from({ length: 1_500 }, () => strange(random));
  let [answered, refused] = [0, 0];
  const before = { asked, readByNode };
  for (let start = 0; start < requests.length; start += 75) {
    await Promise.all(
      requests.slice(start, start + 75).map(async (request) => {
        const asItIs = await expectSame(request);
        if (asItIs.startsWith("HTTP/1.1 200")) answered++;
        if (asItIs.startsWith("HTTP/1.1 4")) refused++;
      }),
    );
  }
  expect(Math.min(answered, refused)).toBeGreaterThan(100);
  const plain = asked - before.asked - (readByNode - before.readByNode);
  expect(plain, "requests that were not read by Node").toBeGreaterThan(50);
});

test("requests over one connection are answered in order, in whatever pieces they come", async () => {
  const random = seededRandom("slow/plain-requests.test.ts");
  const { socket, read, untilCount } = await open();
  const paths = Array.from({ length: 300 }, (_, index) => `/${random.pick(["slow", "fast"])}/${index}`);
  // The first hundred one by one, each as soon as the one before is answered; then in pieces.
  for (const [index, path] of paths.slice(0, 100).entries()) {
    socket.write(get(path));
    await untilCount(OK, index + 1);
  }
  const rest = paths
    .slice(100)
    .map((path) => get(path))
    .join("");
  for (let sent = 0; sent < rest.length; ) {
    const end = sent + random.integer(1, 150);
    socket.write(rest.slice(sent, end));
    sent = end;
    await sleep(random.integer(0, 2));
  }
  await untilCount(OK, paths.length);
  expect(urlsIn(read())).toEqual(paths);
});

test("bodies in parts end with their last chunk, and leave the connection as it was", async () => {
  const warnings: string[] = [];
  const warn = ({ name }: Error) => warnings.push(name);
  process.on("warning", warn);
  onTestFinished(() => {
    process.off("warning", warn);
  });
  const { socket, read, untilCount } = await open();
  for (let count = 1; count <= 15; count++) {
    socket.write(get("/parts"));
    await untilCount(LAST_CHUNK, count);
  }
  socket.write(get("/next"));
  await untilCount('"url":"/next"', 1);
  expect(read()).toContain(`186a0\r\n${LONG_BODY}${LAST_CHUNK}${OK}`);
  expect(warnings, "listeners that were left behind").toEqual([]);
});

test("a client that has ended its side is answered, also to a request that came early", async () => {
  const { socket, read, untilClosed } = await open();
  socket.write(get("/slow/1"));
  await sleep(5);
  socket.end(get("/fast/2"));
  await untilClosed();
  expect(urlsIn(read())).toEqual(["/slow/1", "/fast/2"]);

  const alone = await open();
  alone.socket.end(get("/slow"));
  await alone.untilClosed();
  expect(urlsIn(alone.read())).toEqual(["/slow"]);
});

test("a client that does not read is not answered any further, until it reads", async () => {
  const { socket, untilCount } = await open();
  socket.pause();
  const before = asked;
  const count = 400;
  for (let sent = 0; sent < count; sent++) {
    socket.write(get("/long"));
    await sleep(1);
  }
  await sleep(200);
  // 40 MB in all, of which the kernel takes a few.
  expect(asked - before).toBeLessThan(count / 2);
  socket.resume();
  await untilCount(OK, count);
});

test("stop() waits at most 10 s for a client that never reads", async () => {
  const other = await serve((outgoing) => outgoing.reply({ status: 200, headers: "", body: "x".repeat(50_000_000) }));
  const { socket } = await open(other.port);
  socket.once("data", () => socket.pause());
  socket.write(get("/"));
  await until("the answer has begun", () => socket.isPaused());
  const startedAt = performance.now();
  await other.stop();
  expect((performance.now() - startedAt) / 1000).toBeLessThan(10);
});

test("early requests are kept for 1,250 connections, and no more", async () => {
  let begun = 0;
  const { port } = await serve(() => {
    begun++;
  });
  const count = 1_500;
  const clients = await Promise.all(
    Array.from({ length: count }, async () => {
      const client = await open(port);
      client.socket.write(get("/"));
      return client;
    }),
  );
  await until(
    "all are in flight",
    () => begun,
    20,
    (requests) => requests === count,
  );
  for (const { socket } of clients) socket.write(get("/early"));
  // 20,000 requests in all, for which each of these counts as 17.
  const countClosed = () => clients.filter(({ isClosed }) => isClosed()).length;
  const closed = await until("some are closed", countClosed, 10, (closed) => closed >= count - Math.ceil(20_000 / 16));
  expect(closed).toBeLessThan(count / 2);
});

test("headerLines() refuses a value with a line break", () => {
  expect(() => headerLines({ Link: "<x>\r\nSet-Cookie: a=b" })).toThrow("Link has a character that no header may have");
});
