import { connect } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ApiProcess as Api, GUEST, HOT, launchSampleApiProcess, VAULT } from "../../support/api.ts";
import { describeWaits, measureAlone, startBystander } from "../../support/bystander.ts";
import { residentMb, watchMemory } from "../../support/measure.ts";

// Clients that send thousands of requests over a connection without waiting for answers.

const REQUESTS = 20_000;
/** How long docs/security.md lets a client take nothing of its answers, and how long a busy machine sends until there is no room. */
const STALL_S = 60;
const LATE_S = 30;

let api: Api;
beforeAll(async () => {
  // Short of memory, so that it collects what nobody needs: without that, up to 150 MB of answered requests lie about.
  api = await launchSampleApiProcess({ LOG_LEVEL: "warn", NODE_OPTIONS: "--max-old-space-size=160" });
});
afterAll(() => api?.stop());

/** Every other one is true, and each has a number that comes back. */
const question = (number: number) =>
  `GET /registry/v2/check/all?to=${number % 2 === 0 ? HOT : GUEST}&from=${VAULT} HTTP/1.1\r\nHost: x\r\nX-Request-Id: n${number}\r\n\r\n`;

test(`${REQUESTS} pipelined checks are answered in order, in less than 100 MB, and others are served meanwhile`, async () => {
  const alone = await measureAlone(api);
  const before = residentMb(api.pid);
  const readPeak = watchMemory(api.pid);
  const stop = startBystander(api);

  const socket = connect(api.port, "127.0.0.1");
  const startedAt = performance.now();
  socket.write(Array.from({ length: REQUESTS }, (_, number) => question(number)).join(""));
  let pending = "";
  let answered = 0;
  for await (const data of socket) {
    pending += data;
    let end = 0;
    for (const match of pending.matchAll(
      /HTTP\/1\.1 (?:\d+) .*?X-Request-Id: n(\d+)\r\n.*?\r\n\r\n(true|false)(?=HTTP|$)/gs,
    )) {
      const [whole, number, body] = match;
      if (Number(number) !== answered || body !== String(answered % 2 === 0))
        throw new Error(`Answer ${answered} is ${whole}`);
      answered++;
      end = match.index + whole.length;
    }
    pending = pending.slice(end);
    if (answered === REQUESTS) break;
  }
  const seconds = (performance.now() - startedAt) / 1000;
  const meanwhile = await stop();
  const peak = readPeak();
  console.log(
    `${answered} answers in ${seconds.toFixed(1)} s: from ${before.toFixed(0)} MB to at most ${peak.toFixed(0)} MB. ` +
      `Alone: ${describeWaits(alone)}; meanwhile: ${describeWaits(meanwhile)}`,
  );
  expect(answered).toBe(REQUESTS);
  expect(peak - before).toBeLessThan(100);
  expect(meanwhile.median).toBeLessThan(500);
  expect(meanwhile.slowest).toBeLessThan(5_000);
}, 120_000);

test("who never reads its answers is not read from any more, and cut off after a minute", async () => {
  const clients = Array.from({ length: 20 }, () => connect({ port: api.port, host: "127.0.0.1" }));
  const before = residentMb(api.pid);
  const readPeak = watchMemory(api.pid);
  const startedAt = performance.now();
  const flood = Array.from({ length: 1_000 }, (_, number) => question(number)).join("");
  const endings = clients.map(async (socket) => {
    socket.on("error", () => {});
    socket.pause();
    let sent = 0;
    const send = () => {
      while (socket.writable && socket.write(flood)) sent += 1_000;
    };
    socket.on("drain", send);
    send();
    await new Promise((resolve) => socket.once("close", resolve));
    return { sent, seconds: (performance.now() - startedAt) / 1000 };
  });

  // Who reads nothing does not see the end of a connection either: a write tells.
  const poke = setInterval(() => {
    for (const socket of clients) if (socket.writable) socket.write("x");
  }, 1_000);
  const all = await Promise.all(endings).finally(() => clearInterval(poke));
  const sent = all.reduce((sum, { sent }) => sum + sent, 0);
  const longest = Math.max(...all.map(({ seconds }) => seconds));
  const peak = readPeak();
  console.log(
    `${sent} requests were sent, the last was cut off after ${longest.toFixed(0)} s: from ${before.toFixed(0)} MB to at most ${peak.toFixed(0)} MB`,
  );
  expect(longest).toBeLessThan(STALL_S + LATE_S);
  expect(peak - before).toBeLessThan(150);
}, 120_000);
