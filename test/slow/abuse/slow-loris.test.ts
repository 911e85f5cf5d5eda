import { connect } from "node:net";
import { expect } from "vitest";
import { CHECK } from "../../support/api.ts";
import { observeBystander, test } from "../../support/service-test.ts";

// Clients that keep a connection busy by sending a byte at a time.

const CLIENTS = 100;
/** Timeouts of docs/security.md, and the tolerance for a busy machine. */
const HEADERS_S = 11;
const REQUEST_S = 16;
const LATE_S = 3;
const DRIP_MS = 500;

type Ending = { seconds: number; received: string };

/** Sends the beginning at once and the rest a byte at a time, until the server closes the connection. */
const drip = (port: number, beginning: string, rest: string): Promise<Ending> =>
  new Promise((resolve) => {
    let received = "";
    let sent = 0;
    // Counted by this timer, which is late on a busy machine, like the server's.
    let ticks = 0;
    const socket = connect(port, "127.0.0.1", () => socket.write(beginning));
    const timer = setInterval(() => {
      ticks++;
      if (socket.writable && sent < rest.length) socket.write(rest.charAt(sent++));
    }, DRIP_MS);
    socket.on("data", (data) => {
      received += data;
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      clearInterval(timer);
      resolve({ seconds: (ticks * DRIP_MS) / 1000, received });
    });
  });

const HEAD = `GET ${CHECK} HTTP/1.1\r\nHost: api.example\r\n`;
const TIMED_OUT = /^HTTP\/1\.1 408 .*request-timeout/s;
const ANSWERED = /^HTTP\/1\.1 200 .*\r\n\r\ntrue/s;

const WAYS: [way: string, beginning: string, rest: string, seconds: number, received: RegExp][] = [
  ["nothing at all", "", "", HEADERS_S, TIMED_OUT],
  ["a request line", "", HEAD, HEADERS_S, TIMED_OUT],
  ["headers", HEAD, "X-Slow: ".padEnd(1000, "x"), HEADERS_S, TIMED_OUT],
  ["a body", `${HEAD}Content-Length: 1000000\r\n\r\n`, "x".repeat(1000), REQUEST_S, ANSWERED],
  ["a chunked body", `${HEAD}Transfer-Encoding: chunked\r\n\r\n`, "1\r\nx\r\n".repeat(200), REQUEST_S, ANSWERED],
];

test(`${CLIENTS * WAYS.length} clients that send one byte at a time are disconnected in time, and other clients are served`, async ({
  service,
}) => {
  const { alone, meanwhile } = await observeBystander(service, () =>
    Promise.all(
      WAYS.map(async ([way, beginning, rest, seconds, expected]) => {
        const all = await Promise.all(Array.from({ length: CLIENTS }, () => drip(service.port, beginning, rest)));
        expect(Math.max(...all.map((ending) => ending.seconds)), way).toBeLessThan(seconds + LATE_S);
        for (const { received } of all) expect(received, way).toMatch(expected);
      }),
    ),
  );
  expect(meanwhile.asked).toBeGreaterThan(100);
  expect(meanwhile.median).toBeLessThan(alone.median * 3 + 50);
  expect(meanwhile.slowest).toBeLessThan(2_000);
});
