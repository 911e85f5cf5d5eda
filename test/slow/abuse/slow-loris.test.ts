import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ApiProcess as Api, CHECK, launchSampleApiProcess } from "../../support/api.ts";
import { describeWaits, measureAlone, startBystander } from "../../support/bystander.ts";

// Clients that keep a connection by sending next to nothing over it.

const CLIENTS = 100;
/** What docs/security.md says, and how late a busy machine may be. */
const HEADERS_S = 11;
const REQUEST_S = 16;
const LATE_S = 3;

let api: Api;
beforeAll(async () => {
  api = await launchSampleApiProcess();
});
afterAll(() => api?.stop());

type Ending = { seconds: number; received: string };

/** Sends the beginning at once and the rest a byte at a time, until the server has enough. */
const drip = (beginning: string, rest: string): Promise<Ending> =>
  new Promise((resolve) => {
    const startedAt = performance.now();
    let received = "";
    let sent = 0;
    const socket = connect(api.port, "127.0.0.1", () => socket.write(beginning));
    const timer = setInterval(() => {
      if (socket.writable && sent < rest.length) socket.write(rest.charAt(sent++));
    }, 500);
    socket.on("data", (data) => {
      received += data;
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      clearInterval(timer);
      resolve({ seconds: (performance.now() - startedAt) / 1000, received });
    });
  });

const HEAD = `GET ${CHECK} HTTP/1.1\r\nHost: api.example\r\n`;
const BODY = "Content-Length: 1000000\r\n\r\n";

const WAYS = [
  { way: "nothing at all", beginning: "", rest: "", seconds: HEADERS_S },
  { way: "a request line, byte by byte", beginning: "", rest: HEAD, seconds: HEADERS_S },
  { way: "headers, byte by byte", beginning: HEAD, rest: "X-Slow: ".padEnd(1000, "x"), seconds: HEADERS_S },
  { way: "a body, byte by byte", beginning: HEAD + BODY, rest: "x".repeat(1000), seconds: REQUEST_S },
  {
    way: "a body in chunks of one byte",
    beginning: `${HEAD}Transfer-Encoding: chunked\r\n\r\n`,
    rest: "1\r\nx\r\n".repeat(200),
    seconds: REQUEST_S,
  },
];

test(`${CLIENTS} clients each that send one byte at a time are cut off in time, and others are served as ever`, async () => {
  const alone = await measureAlone(api);
  const stop = startBystander(api);
  const endings = await Promise.all(
    WAYS.map(async ({ way, beginning, rest, seconds }) => {
      const all = await Promise.all(Array.from({ length: CLIENTS }, () => drip(beginning, rest)));
      const longest = Math.max(...all.map((ending) => ending.seconds));
      console.log(`${way}: cut off after ${longest.toFixed(1)} s`);
      return { way, seconds, longest, all };
    }),
  );
  const meanwhile = await stop();
  console.log(`Alone: ${describeWaits(alone)}; meanwhile: ${describeWaits(meanwhile)}`);

  for (const { way, seconds, longest, all } of endings) {
    expect(longest, way).toBeLessThan(seconds + LATE_S);
    // Who has not been answered is told why.
    if (seconds === HEADERS_S) {
      for (const { received } of all) expect(received, way).toMatch(/^HTTP\/1\.1 408 .*request-timeout/s);
    } else {
      for (const { received } of all) expect(received, way).toMatch(/^HTTP\/1\.1 200 .*\r\n\r\ntrue/s);
    }
  }
  expect(meanwhile.asked).toBeGreaterThan(100);
  expect(meanwhile.median).toBeLessThan(alone.median * 3 + 50);
  expect(meanwhile.slowest).toBeLessThan(2_000);
}, 60_000);
