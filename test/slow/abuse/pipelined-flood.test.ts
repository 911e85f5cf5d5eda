import { connect } from "node:net";
import { expect } from "vitest";
import { GUEST, HOT, VAULT } from "../../support/api.ts";
import { readResidentMb, startStopwatch, watchMemory } from "../../support/processes.ts";
import { test as base, observeBystander } from "../../support/service-test.ts";

// Clients that pipeline thousands of requests over a connection.

const REQUESTS = 20_000;
/** Time after which docs/security.md disconnects a client that reads nothing, and the tolerance for a busy machine. */
const STALL_S = 60;
const LATE_S = 30;

// A small heap, so that garbage is collected: with the default, up to 150 MB of it remain.
const test = base.extend("env", { NODE_OPTIONS: "--max-old-space-size=160", TRUST_PROXY: "127.0.0.1" });

/** Every second check is true, and each has a number that its response repeats. */
const question = (number: number) =>
  `GET /registry/v2/check/all?to=${number % 2 === 0 ? HOT : GUEST}&from=${VAULT} HTTP/1.1\r\nHost: x\r\nX-Request-Id: n${number}\r\n\r\n`;

/** Answers, and refusals: on an overloaded machine, a flood waits longer for itself than a request may wait. */
const ANSWERS =
  /HTTP\/1\.1 (?:200|503) .*?X-Request-Id: n(\d+)\r\n.*?\r\n\r\n(true|false|\{"type":"\/docs#problem-overloaded".*?\})(?=HTTP|$)/gs;

test(`${REQUESTS} pipelined checks are answered in order with less than 100 MB, and other clients are served`, async ({
  service: api,
}) => {
  let answered = 0;
  let refused = 0;
  const { meanwhile, grownMb } = await observeBystander(api, async () => {
    const socket = connect(api.port, "127.0.0.1");
    socket.write(Array.from({ length: REQUESTS }, (_, number) => question(number)).join(""));
    let pending = "";
    for await (const data of socket) {
      pending += data;
      let end = 0;
      for (const match of pending.matchAll(ANSWERS)) {
        const [whole, number, body] = match;
        const isRefused = body?.startsWith("{");
        if (Number(number) !== answered || !(isRefused || body === String(answered % 2 === 0)))
          throw new Error(`Answer ${answered} is ${whole}`);
        answered++;
        if (isRefused) refused++;
        end = match.index + whole.length;
      }
      pending = pending.slice(end);
      if (answered === REQUESTS) break;
    }
  });
  console.log(`${refused} were refused.`);
  expect(answered).toBe(REQUESTS);
  expect(refused).toBeLessThan(REQUESTS);
  expect(grownMb).toBeLessThan(100);
  expect(meanwhile.median).toBeLessThan(500);
  expect(meanwhile.slowest).toBeLessThan(5_000);
});

test("clients that never read use less than 150 MB, and are disconnected after a minute", async ({ service: api }) => {
  const clients = Array.from({ length: 20 }, () => connect({ port: api.port, host: "127.0.0.1" }));
  const before = readResidentMb(api.pid);
  const readPeak = watchMemory(api.pid);
  const flood = Array.from({ length: 1_000 }, (_, number) => question(number)).join("");
  const endings = clients.map(async (socket) => {
    let readSinceDrain = startStopwatch(api.pid);
    socket.on("error", () => {});
    socket.pause();
    const send = () => {
      readSinceDrain = startStopwatch(api.pid);
      while (socket.writable && socket.write(flood));
    };
    socket.on("drain", send);
    send();
    await new Promise((resolve) => socket.once("close", resolve));
    return readSinceDrain() / 1000;
  });
  // A client that reads nothing notices a closed connection only when it writes.
  const poke = setInterval(() => {
    for (const socket of clients) if (socket.writable) socket.write("x");
  }, 1_000);
  const seconds = await Promise.all(endings).finally(() => clearInterval(poke));
  const peak = readPeak();
  expect(Math.max(...seconds)).toBeLessThan(STALL_S + LATE_S);
  expect(peak - before).toBeLessThan(150);
});
