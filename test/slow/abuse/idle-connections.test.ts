import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ApiProcess as Api, launchSampleApiProcess } from "../../support/api.ts";
import { measureAlone } from "../../support/bystander.ts";
import { residentMb, watchMemory } from "../../support/measure.ts";
import { until } from "../../support/setup.ts";

// Clients that connect and stay. docs/security.md says how many may, and what they cost.

const MOST = 10_000;
const MORE = 200;
const AT_ONCE = 200;

/** Each end needs a file for each connection, and some for itself. */
const room = Number(execFileSync("sh", ["-c", "ulimit -n"]).toString()) - 1_000;
const count = Math.min(MOST + MORE, room);

let api: Api;
beforeAll(async () => {
  api = await launchSampleApiProcess();
});
afterAll(() => api?.stop());

const open = (request: string): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect(api.port, "127.0.0.1");
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.on("error", () => {});
      if (request === "") resolve(socket.resume());
      else socket.write(request);
    });
    socket.once("data", () => resolve(socket.resume()));
  });

/** Some at a time: no more than wait in line to be accepted. */
const openMany = async (request: string, sockets: Socket[]) => {
  while (sockets.length < count) {
    const next = Math.min(AT_ONCE, count - sockets.length);
    sockets.push(...(await Promise.all(Array.from({ length: next }, () => open(request)))));
  }
};

const countFiles = () => readdirSync(`/proc/${api.pid}/fd`).length;

test.runIf(process.platform === "linux").for([
  ["have asked something", "GET /health HTTP/1.1\r\nHost: x\r\n\r\n", 0],
  ["never ask anything", "", 14],
] as const)(
  `${count} idle connections that %s take less than 150 MB, and others are served`,
  async ([, request, goneAfter]) => {
    const filesBefore = countFiles();
    const readHeld = () => countFiles() - filesBefore;
    const sockets: Socket[] = [];
    const alone = await measureAlone(api);
    const before = residentMb(api.pid);
    const readPeak = watchMemory(api.pid);
    try {
      await openMany(request, sockets);
      await until("there are no more than may be", readHeld, 10, (held) => held <= MOST);
      const meanwhile = await measureAlone(api);
      expect(readPeak() - before).toBeLessThan(150);
      expect(meanwhile.median).toBeLessThan(alone.median * 3 + 50);
      expect(meanwhile.slowest).toBeLessThan(2_000);
      const oldest = sockets.slice(0, Math.max(0, count - MOST));
      expect(oldest.every(({ destroyed, readableEnded }) => destroyed || readableEnded)).toBe(true);
      if (goneAfter > 0) await until("none is left", readHeld, goneAfter, (held) => held < 100);
    } finally {
      readPeak();
      for (const socket of sockets) socket.destroy();
    }
    await until("the process has closed all", readHeld, 20, (held) => held < 100);
  },
);
