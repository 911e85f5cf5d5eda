import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type ApiProcess as Api, CHECK, HOT, launchSampleApiProcess, readStart, VAULT } from "../support/api.ts";
import { type Answer, sendBytes } from "../support/http.ts";
import { until } from "../support/setup.ts";

// What no client library would send, so it is written to the socket by hand.

let api: Api;
let startedAt: string;
beforeAll(async () => {
  api = await launchSampleApiProcess();
  startedAt = await readStart(api);
});
afterAll(() => api?.stop());

afterEach(async () => {
  expect(await (await api.get(CHECK)).text(), "it goes on answering").toBe("true");
  expect(await readStart(api), "it is the same process").toBe(startedAt);
});

/** The head of a request after which the server hangs up. */
const get = (path: string, headers: string[] = ["Host: api.example"]) =>
  [`GET ${path} HTTP/1.1`, ...headers, "Connection: close", "", ""].join("\r\n");

const open = (): Socket => connect(api.port, "127.0.0.1");

const send = (request: string | Buffer) => sendBytes(api.port, request);

const expectProblem = ({ status, headers, body }: Answer, expected: object) => {
  expect(headers["content-type"]).toBe("application/problem+json");
  const problem = JSON.parse(body);
  expect(problem).toEqual({
    type: expect.any(String),
    title: expect.any(String),
    status,
    detail: expect.any(String),
  });
  expect(problem).toMatchObject(expected);
};

const TOO_LONG = { type: "/docs#problem-url-too-long", status: 414 };
const TOO_LARGE = { type: "/docs#problem-headers-too-large", status: 431 };
const UNREADABLE = { type: "/docs#problem-bad-request", status: 400 };

describe("a URL that is too long is refused", () => {
  const longer = (length: number) => `${CHECK}&x=`.padEnd(length, "x");

  test.each([4100, 5000, 8000])("a question of %i characters: 414", async (length) => {
    expectProblem(await send(get(longer(length))), TOO_LONG);
  });

  test("a path of 5000 characters: 414", async () => {
    expectProblem(await send(get(`/registry/v2/${"0".repeat(5000)}`)), TOO_LONG);
  });

  // The server does not read further than it takes for URL and headers together.
  test.each([8192, 20_000, 60_000])("a question of %i characters: 431", async (length) => {
    expectProblem(await send(get(longer(length))), TOO_LARGE);
  });

  test("one of 4000 characters is not", async () => {
    expect(await send(get(longer(4000)))).toMatchObject({ status: 200, body: "true" });
  });
});

describe("headers that are too large are refused", () => {
  const header = (name: string, length: number) => `${name}: ${"x".repeat(length)}`;

  const FLOODS = {
    "one of 9000 bytes": [header("X-Flood", 9000)],
    "one of 60000 bytes": [header("X-Flood", 60_000)],
    "200 of 100 bytes": Array.from({ length: 200 }, (_, index) => header(`X-Flood-${index}`, 100)),
    "200 of 100 bytes with one name": Array.from({ length: 200 }, () => header("X-Flood", 100)),
    "10000 of one byte": Array.from({ length: 10_000 }, () => header("X", 1)),
    "a name of 9000 bytes": [header("X".repeat(9000), 1)],
    "a key of 9000 bytes": [header("X-API-KEY", 9000)],
    "a host of 9000 bytes": [header("Host", 9000)],
    "cookies of 9000 bytes": [header("Cookie", 9000)],
  };

  test.each(Object.entries(FLOODS))("%s", async (_, headers) => {
    expectProblem(await send(get(CHECK, ["Host: api.example", ...headers])), TOO_LARGE);
  });

  test("7000 bytes of them are not", async () => {
    expect(await send(get(CHECK, ["Host: api.example", header("X", 7000)]))).toMatchObject({ status: 200 });
  });

  test("1500 small ones are not", async () => {
    const headers = Array.from({ length: 1500 }, () => "X:");
    expect(await send(get(CHECK, ["Host: api.example", ...headers]))).toMatchObject({ status: 200 });
  });

  test("a flood that never ends is cut off", async () => {
    const socket = open();
    // Whether it ends by an orderly close or by a reset is the network's choice.
    socket.on("error", () => {});
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.resume();
    socket.write(`GET ${CHECK} HTTP/1.1\r\nHost: api.example\r\n`);
    const flood = () => {
      while (socket.writable && socket.write(`${header("X-Flood", 1000)}\r\n`));
    };
    socket.on("drain", flood);
    flood();
    await closed;
  });
});

describe("what is not HTTP gets a problem document, in HTTP", () => {
  const GARBAGE = {
    "a word": "hello\r\n\r\n",
    "a greeting of SMTP": "EHLO mail.example\r\n",
    "the start of TLS": Buffer.from("1603010200010001fc0303", "hex"),
    "the preface of HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "null bytes": Buffer.alloc(64),
    "random bytes": Buffer.from("8f3a00ff17c2e5d4b3a29180706f5e4d3c2b1a09", "hex"),
    JSON: `{"to":"${HOT}","from":"${VAULT}"}\r\n\r\n`,
    "a method that does not exist": `FETCH ${CHECK} HTTP/1.1\r\nHost: x\r\n\r\n`,
    "a method in small letters": `get ${CHECK} HTTP/1.1\r\nHost: x\r\n\r\n`,
    "a version that does not exist": `GET ${CHECK} HTTP/9.9\r\nHost: x\r\n\r\n`,
    "a space in the URL": `GET /registry/v2/check/all?to=${HOT} &from=${VAULT} HTTP/1.1\r\nHost: x\r\n\r\n`,
    "a null byte in the URL": `GET /registry/v2/\0 HTTP/1.1\r\nHost: x\r\n\r\n`,
    "a header without a colon": `GET ${CHECK} HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n`,
    "a header with a null byte": `GET ${CHECK} HTTP/1.1\r\nHost: x\r\nX-API-KEY: a\0b\r\n\r\n`,
    "a space before a colon": `GET ${CHECK} HTTP/1.1\r\nHost: x\r\nX : 1\r\n\r\n`,
    "a length that is no number": `POST ${CHECK} HTTP/1.1\r\nHost: x\r\nContent-Length: one\r\n\r\n`,
    "two lengths": `POST ${CHECK} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n`,
    "a length and chunks": `POST ${CHECK} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n`,
  };

  test.each(Object.entries(GARBAGE))("%s", async (_, bytes) => {
    expectProblem(await send(bytes), UNREADABLE);
  });

  const UNREADABLE_URLS = {
    "an asterisk": "*",
    "a path without a slash": "registry/v2",
    "only a question mark": "?to=1",
    "a backslash": `/registry\\v2/${VAULT}`,
    "a URL of another protocol": `ftp://api.example${CHECK}`,
    "a URL that is none": "http://[/",
  };

  test.each(Object.entries(UNREADABLE_URLS))("%s in the place of the URL", async (_, target) => {
    expectProblem(await send(get(target)), UNREADABLE);
  });
});

describe("a host", () => {
  test("has to be named: without it, a request is refused", async () => {
    expectProblem(await send(get(CHECK, [])), UNREADABLE);
  });

  test("need not be named in HTTP/1.0, which does not know of it, as in old health checks", async () => {
    expect(await send(`GET ${CHECK} HTTP/1.0\r\n\r\n`)).toMatchObject({ status: 200, body: "true" });
    expect(await send("GET /health HTTP/1.0\r\n\r\n")).toMatchObject({ status: 200 });
  });

  test.each([
    "",
    " ",
    "a b",
    "api.example/path",
    "api.example?x",
    "user@api.example",
    "api.example:99999",
    "[::1",
    "%",
    "<>",
  ])('that is "%s" is refused', async (host) => {
    expectProblem(await send(get(CHECK, [`Host: ${host}`])), UNREADABLE);
  });

  test.each(["api.example", "API.EXAMPLE:8080", "127.0.0.1:65535", "[::1]:8080", "localhost", "a_b.example"])(
    'that is "%s" is fine: the answer is the same under any name',
    async (host) => {
      expect(await send(get(CHECK, [`Host: ${host}`]))).toMatchObject({ status: 200, body: "true" });
    },
  );
});

describe("the URL may be a whole one, as proxies send it", () => {
  test.each(["http://api.example", "https://api.example", "http://api.example:8080", "http://[::1]:8080"])(
    "%s",
    async (origin) => {
      expect(await send(get(`${origin}${CHECK}`))).toMatchObject({ status: 200, body: "true" });
    },
  );

  test("and is refused for the same reasons as any other", async () => {
    expect(await send(get("http://api.example/registry/v2/garbage"))).toMatchObject({ status: 400 });
    expect(await send(get("http://api.example/nothing"))).toMatchObject({ status: 404 });
  });

  test("and without a path is the page at the root", async () => {
    expect(await send(get("http://api.example"))).toMatchObject({ status: 200 });
  });
});

test.each(["nonsense", "200-ok"])(
  'an expectation of "%s" is not met, and the question still answered',
  async (expectation) => {
    const answer = await send(get(CHECK, ["Host: api.example", `Expect: ${expectation}`]));
    expect(answer).toMatchObject({ status: 200, body: "true" });
  },
);

test("an upgrade that is asked for is not made, and the question still answered", async () => {
  const headers = ["Host: api.example", "Upgrade: websocket, h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"];
  const request = get(CHECK, headers).replace("Connection: close", "Connection: close, Upgrade");
  expect(await send(request)).toMatchObject({ status: 200, body: "true" });
});

describe("whoever does not hang up does not hold on to the process", () => {
  const countSockets = async () => {
    const descriptors = await readdir(`/proc/${api.pid}/fd`);
    return descriptors.length;
  };

  test.skipIf(process.platform !== "linux").each([
    ["garbage", "garbage\r\n\r\n"],
    ["a CONNECT", "CONNECT api.example:443 HTTP/1.1\r\nHost: x\r\n\r\n"],
  ])("after %s", async (_, refused) => {
    const before = await countSockets();
    const clients = Array.from({ length: 50 }, () => {
      const socket = connect({ port: api.port, host: "127.0.0.1", allowHalfOpen: true });
      socket.write(refused);
      return socket;
    });
    try {
      // Each has its answer, and keeps its own end open.
      await Promise.all(clients.map((client) => once(client.resume(), "end")));
      await until(
        "the process has let go of them",
        async () => (await countSockets()) < before + clients.length / 2,
        10,
      );
    } finally {
      for (const client of clients) client.destroy();
    }
  });

  test("before a request is complete: who hangs up early costs nothing", async () => {
    for (const part of ["", "G", "GET /regis", get(CHECK).slice(0, -2)]) {
      const socket = open();
      await once(socket, "connect");
      socket.end(part);
      await text(socket);
    }
  });

  test("while it is being answered", async () => {
    for (let index = 0; index < 50; index++) {
      const socket = open();
      await once(socket, "connect");
      socket.write(get(`/registry/v2/${VAULT}`));
      socket.resetAndDestroy();
    }
  });
});
