import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ApiProcess as Api, GUEST, HOT, launchSampleApiProcess, VAULT } from "../../support/api.ts";
import { observe } from "../../support/bystander.ts";
import { residentMb, watchMemory } from "../../support/measure.ts";

// Clients that send thousands of requests over a connection without waiting for answers.

const REQUESTS = 20_000;
/** How long docs/security.md lets a client take nothing of its answers, and how late a busy machine may be. */
const STALL_S = 60;
const LATE_S = 30;

let api: Api;
beforeAll(async () => {
  // Short of memory, so that garbage is collected: without that, up to 150 MB of it lie about.
  api = await launchSampleApiProcess({ LOG_LEVEL: "warn", NODE_OPTIONS: "--max-old-space-size=160" });
});
afterAll(() => api?.stop());

/** Every other one is true, and each has a number that comes back. */
const question = (number: number) =>
  `GET /registry/v2/check/all?to=${number % 2 === 0 ? HOT : GUEST}&from=${VAULT} HTTP/1.1\r\nHost: x\r\nX-Request-Id: n${number}\r\n\r\n`;

const ANSWERS = /HTTP\/1\.1 (?:\d+) .*?X-Request-Id: n(\d+)\r\n.*?\r\n\r\n(true|false)(?=HTTP|$)/gs;

test(`${REQUESTS} pipelined checks are answered in order, in less than 100 MB, and others are served`, async () => {
  let answered = 0;
  const { meanwhile, grownMb } = await observe(api, async () => {
    const socket = connect(api.port, "127.0.0.1");
    socket.write(Array.from({ length: REQUESTS }, (_, number) => question(number)).join(""));
    let pending = "";
    for await (const data of socket) {
      pending += data;
      let end = 0;
      for (const match of pending.matchAll(ANSWERS)) {
        const [whole, number, body] = match;
        if (Number(number) !== answered || body !== String(answered % 2 === 0))
          throw new Error(`Answer ${answered} is ${whole}`);
        answered++;
        end = match.index + whole.length;
      }
      pending = pending.slice(end);
      if (answered === REQUESTS) break;
    }
  });
  expect(answered).toBe(REQUESTS);
  expect(grownMb).toBeLessThan(100);
  expect(meanwhile.median).toBeLessThan(500);
  expect(meanwhile.slowest).toBeLessThan(5_000);
});

test("clients that never read their answers take less than 150 MB, and are cut off after a minute", async () => {
  const clients = Array.from({ length: 20 }, () => connect({ port: api.port, host: "127.0.0.1" }));
  const before = residentMb(api.pid);
  const readPeak = watchMemory(api.pid);
  const flood = Array.from({ length: 1_000 }, (_, number) => question(number)).join("");
  const endings = clients.map(async (socket) => {
    let drainedAt = performance.now();
    socket.on("error", () => {});
    socket.pause();
    const send = () => {
      drainedAt = performance.now();
      while (socket.writable && socket.write(flood));
    };
    socket.on("drain", send);
    send();
    await new Promise((resolve) => socket.once("close", resolve));
    return (performance.now() - drainedAt) / 1000;
  });
  // A client that reads nothing does not see the end of its connection: a write does.
  const poke = setInterval(() => {
    for (const socket of clients) if (socket.writable) socket.write("x");
  }, 1_000);
  const seconds = await Promise.all(endings).finally(() => clearInterval(poke));
  const peak = readPeak();
  expect(Math.max(...seconds)).toBeLessThan(STALL_S + LATE_S);
  expect(peak - before).toBeLessThan(150);
});
