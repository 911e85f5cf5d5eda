import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { describe, expect } from "vitest";
import { type Api, CHECK, HOT, VAULT } from "../support/api.ts";
import { type HttpAnswer, sendBytes } from "../support/http.ts";
import { waitUntil } from "../support/setup.ts";
import { test } from "../support/test.ts";

// Raw requests that no client library sends.

const PATH = "/health";
const OK = { status: 200, body: '{"status":"ok"}' };

test.afterEach(async ({ samples }) => {
  expect((await samples.get(PATH)).status, "the API still answers").toBe(200);
});

/** Builds a GET request after which the server closes the connection. */
const get = (path: string, headers: string[] = ["Host: api.example"]) =>
  [`GET ${path} HTTP/1.1`, ...headers, "Connection: close", "", ""].join("\r\n");

const open = ({ port }: Api): Socket => connect(port, "127.0.0.1");

const expectProblem = ({ status, headers, body }: HttpAnswer, expected: object) => {
  expect(headers["content-type"]).toBe("application/problem+json");
  const problem = JSON.parse(body);
  expect(problem).toEqual({ type: expect.any(String), title: expect.any(String), status, detail: expect.any(String) });
  expect(problem).toMatchObject(expected);
};

const TOO_LONG = { type: "/docs#problem-url-too-long", status: 414 };
const TOO_LARGE = { type: "/docs#problem-headers-too-large", status: 431 };
const UNREADABLE = { type: "/docs#problem-bad-request", status: 400 };

describe("a URL", () => {
  const longer = (length: number) => `${PATH}?x=`.padEnd(length, "x");

  test.for([4100, 5000, 8000])("of %i characters returns 414", async (length, { samples }) => {
    expectProblem(await sendBytes(samples.port, get(longer(length))), TOO_LONG);
    expectProblem(await sendBytes(samples.port, get(`/registry/v2/`.padEnd(length, "0"))), TOO_LONG);
  });

  // The server stops reading at the limit for URL and headers together.
  test.for([8192, 20_000, 60_000])("of %i characters returns 431", async (length, { samples }) => {
    expectProblem(await sendBytes(samples.port, get(longer(length))), TOO_LARGE);
  });

  test("of 4000 characters returns 200", async ({ samples }) => {
    expect(await sendBytes(samples.port, get(longer(4000)))).toMatchObject(OK);
  });
});

describe("a request with headers:", () => {
  const header = (name: string, length: number) => `${name}: ${"x".repeat(length)}`;
  const times = (count: number, line: (index: number) => string) => Array.from({ length: count }, (_, i) => line(i));

  test.for<[what: string, headers: string[]]>([
    ["one of 9000 bytes", [header("X-Flood", 9000)]],
    ["one of 60000 bytes", [header("X-Flood", 60_000)]],
    ["200 of 100 bytes", times(200, (index) => header(`X-Flood-${index}`, 100))],
    ["200 of 100 bytes with one name", times(200, () => header("X-Flood", 100))],
    ["10000 of one byte", times(10_000, () => header("X", 1))],
    ["a name of 9000 bytes", [header("X".repeat(9000), 1)]],
    ["a key of 9000 bytes", [header("X-API-KEY", 9000)]],
    ["a host of 9000 bytes", [header("Host", 9000)]],
    ["cookies of 9000 bytes", [header("Cookie", 9000)]],
  ])("%s returns 431", async ([, headers], { samples }) => {
    expectProblem(await sendBytes(samples.port, get(PATH, ["Host: api.example", ...headers])), TOO_LARGE);
  });

  test.for<[what: string, headers: string[]]>([
    ["one of 7000 bytes", [header("X", 7000)]],
    // Node 20 drops headers after the first thousand; newer versions refuse the request.
    ["900 small ones", times(900, () => "X:")],
  ])("%s returns 200", async ([, headers], { samples }) => {
    expect(await sendBytes(samples.port, get(PATH, ["Host: api.example", ...headers]))).toMatchObject(OK);
  });

  test("endless ones close the connection", async ({ samples }) => {
    const socket = open(samples);
    // The connection may end with a close or a reset.
    socket.on("error", () => {});
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.resume();
    socket.write(`GET ${PATH} HTTP/1.1\r\nHost: api.example\r\n`);
    const flood = () => {
      while (socket.writable && socket.write(`${header("X-Flood", 1000)}\r\n`));
    };
    socket.on("drain", flood);
    flood();
    await closed;
  });
});

describe("a malformed request returns 400 as a problem document:", () => {
  const post = (...headers: string[]) => `POST ${PATH} HTTP/1.1\r\nHost: x\r\n${headers.join("\r\n")}\r\n\r\n`;

  test.for<[what: string, bytes: string | Buffer]>([
    ["a word", "hello\r\n\r\n"],
    ["a greeting of SMTP", "EHLO mail.example\r\n"],
    ["the start of TLS", Buffer.from("1603010200010001fc0303", "hex")],
    ["the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"],
    ["null bytes", Buffer.alloc(64)],
    ["random bytes", Buffer.from("8f3a00ff17c2e5d4b3a29180706f5e4d3c2b1a09", "hex")],
    ["JSON", `{"to":"${HOT}","from":"${VAULT}"}\r\n\r\n`],
    ["an unknown method", `FETCH ${PATH} HTTP/1.1\r\nHost: x\r\n\r\n`],
    ["a method in lower case", `get ${PATH} HTTP/1.1\r\nHost: x\r\n\r\n`],
    ["an unknown version", `GET ${PATH} HTTP/9.9\r\nHost: x\r\n\r\n`],
    ["a space in the URL", get(`${CHECK} &x=1`)],
    ["a null byte in the URL", get("/registry/v2/\0")],
    ["a header without a colon", get(PATH, ["Host: x", "nonsense"])],
    ["a header with a null byte", get(PATH, ["Host: x", "X-API-KEY: a\0b"])],
    ["a space before a colon", get(PATH, ["Host: x", "X : 1"])],
    ["a length that is no number", post("Content-Length: one")],
    ["two lengths", post("Content-Length: 1", "Content-Length: 2")],
    ["a length and chunks", post("Content-Length: 1", "Transfer-Encoding: chunked")],
    ["an asterisk for the URL", get("*")],
    ["a path without a slash", get("registry/v2")],
    ["a URL that is only a query", get("?to=1")],
    ["a backslash in the URL", get(`/registry\\v2/${VAULT}`)],
    ["a URL of another protocol", get(`ftp://api.example${PATH}`)],
    ["a malformed URL", get("http://[/")],
    ["no Host", get(PATH, [])],
    ["two Hosts", get(PATH, ["Host: api.example", "Host: other.example"])],
    ["the same Host twice", get(PATH, ["Host: api.example", "host: api.example"])],
  ])("%s", async ([, bytes], { samples }) => {
    expectProblem(await sendBytes(samples.port, bytes), UNREADABLE);
  });
});

describe("an unusual request with", () => {
  test.for(["", " ", "a b", "api.example/path", "api.example?x", "user@api.example", "api.example:99999", "[::1", "%"])(
    'Host "%s" returns 400',
    async (host, { samples }) => {
      expectProblem(await sendBytes(samples.port, get(PATH, [`Host: ${host}`])), UNREADABLE);
    },
  );

  const upgrade = ["Host: api.example", "Upgrade: websocket, h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"];

  test.for<[what: string, request: string]>([
    ...["api.example", "API.EXAMPLE:8080", "127.0.0.1:65535", "[::1]:8080", "localhost", "a_b.example"].map(
      (host): [string, string] => [`Host "${host}"`, get(PATH, [`Host: ${host}`])],
    ),
    ["HTTP/1.0 without a Host, as in old health checks", `GET ${PATH} HTTP/1.0\r\n\r\n`],
    ...["http://api.example", "https://api.example", "http://api.example:8080", "http://[::1]:8080"].map(
      (origin): [string, string] => [`an absolute URL, as proxies send it, ${origin}`, get(`${origin}${PATH}`)],
    ),
    ["an Expect that makes no sense", get(PATH, ["Host: api.example", "Expect: nonsense"])],
    ["an Expect of 200-ok", get(PATH, ["Host: api.example", "Expect: 200-ok"])],
    ["an Upgrade, which is ignored", get(PATH, upgrade).replace("Connection: close", "Connection: close, Upgrade")],
  ])("%s returns 200", async ([, request], { samples }) => {
    expect(await sendBytes(samples.port, request)).toMatchObject(OK);
  });

  test.for(["", "Expect: nonsense\r\n"])(
    "an upgrade returns 200 and closes the connection: no request after it is lost in silence %j",
    async (header, { samples }) => {
      const upgrade = `GET ${PATH} HTTP/1.1\r\nHost: x\r\nUpgrade: x\r\n${header}Connection: Upgrade\r\n\r\n`;
      const answer = await sendBytes(samples.port, `${upgrade}${get("/nowhere")}`, AbortSignal.timeout(5_000));
      expect(answer).toMatchObject({ ...OK, headers: { connection: "close" } });
    },
  );

  test("an absolute URL returns the same errors as a path, and the root without a path", async ({ samples }) => {
    expect(await sendBytes(samples.port, get("http://api.example/registry/v2/garbage"))).toMatchObject({ status: 400 });
    expect(await sendBytes(samples.port, get("http://api.example/nothing"))).toMatchObject({ status: 404 });
    expect(await sendBytes(samples.port, get("http://api.example"))).toMatchObject({ status: 200 });
  });
});

describe("a client that does not close its connection", () => {
  /** Counts both ends of each connection, as the server is in this process. */
  const countSockets = () => process.getActiveResourcesInfo().filter((name) => name === "TCPSocketWrap").length;

  test.for([
    ["garbage", "garbage\r\n\r\n"],
    ["a CONNECT", "CONNECT api.example:443 HTTP/1.1\r\nHost: x\r\n\r\n"],
  ] as const)("is disconnected after %s", async ([, refused], { samples }) => {
    const before = countSockets();
    const clients = Array.from({ length: 50 }, () => {
      const socket = connect({ port: samples.port, host: "127.0.0.1", allowHalfOpen: true });
      socket.write(refused);
      return socket;
    });
    try {
      // Each client has its response, and keeps its own end open.
      await Promise.all(clients.map((client) => once(client.resume(), "end")));
      const limit = before + clients.length * 1.5;
      await waitUntil("the server has closed its ends", countSockets, 10, (count) => count < limit);
    } finally {
      for (const client of clients) client.destroy();
    }
  });

  test("does not affect others when it disconnects during its request or the response", async ({ samples }) => {
    for (const part of ["", "G", "GET /regis", get(PATH).slice(0, -2)]) {
      const socket = open(samples);
      await once(socket, "connect");
      socket.end(part);
      await text(socket);
    }
    for (let index = 0; index < 50; index++) {
      const socket = open(samples);
      await once(socket, "connect");
      socket.write(get(`/registry/v2/${VAULT}`));
      socket.resetAndDestroy();
    }
  });
});
