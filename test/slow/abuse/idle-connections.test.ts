import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ApiProcess as Api, launchSampleApiProcess } from "../../support/api.ts";
import { describeWaits, measureAlone, startBystander } from "../../support/bystander.ts";
import { residentMb, watchMemory } from "../../support/measure.ts";
import { until } from "../../support/setup.ts";

// Clients that connect and stay. docs/security.md says how many may, and what they cost.

const MOST = 10_000;
const MORE = 200;
const AT_ONCE = 200;

/** Each end needs a file for each connection, and some for itself. */
const room = Number(execFileSync("sh", ["-c", "ulimit -n"]).toString()) - 1_000;
const count = Math.min(MOST + MORE, room);
const isLinux = process.platform === "linux";

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
const openMany = async (request: string): Promise<Socket[]> => {
  const sockets: Socket[] = [];
  while (sockets.length < count) {
    const next = Math.min(AT_ONCE, count - sockets.length);
    sockets.push(...(await Promise.all(Array.from({ length: next }, () => open(request)))));
  }
  return sockets;
};

const countFiles = () => readdirSync(`/proc/${api.pid}/fd`).length;

test.runIf(isLinux).for([
  ["have asked something", "GET /health HTTP/1.1\r\nHost: x\r\n\r\n", 0],
  ["never ask anything", "", 14],
] as const)(
  `${count} idle connections that %s take less than 150 MB, and others are served as ever`,
  { timeout: 120_000 },
  async ([, request, goneAfter]) => {
    const filesBefore = countFiles();
    const before = residentMb(api.pid);
    const alone = await measureAlone(api);
    const readPeak = watchMemory(api.pid);
    const startedAt = performance.now();
    const sockets = await openMany(request);
    const seconds = (performance.now() - startedAt) / 1000;
    try {
      const stop = startBystander(api);
      if (count > MOST)
        await until("there are no more than may be", async () => countFiles() - filesBefore <= MOST, 10);
      const held = countFiles() - filesBefore;
      await until("some were asked meanwhile", () => measureAlone(api, 1_000).then(() => true));
      const meanwhile = await stop();
      const peak = readPeak();
      console.log(
        `${count} connections in ${seconds.toFixed(1)} s, ${held} held: from ${before.toFixed(0)} MB to at most ${peak.toFixed(0)} MB. ` +
          `Alone: ${describeWaits(alone)}; meanwhile: ${describeWaits(meanwhile)}`,
      );
      expect(peak - before).toBeLessThan(150);
      expect(meanwhile.median).toBeLessThan(alone.median * 3 + 50);
      expect(meanwhile.slowest).toBeLessThan(2_000);
      // The oldest have made room.
      if (count > MOST)
        expect(sockets.slice(0, count - MOST).every(({ destroyed, readableEnded }) => destroyed || readableEnded)).toBe(
          true,
        );
      if (goneAfter > 0) await until("none is left", async () => countFiles() - filesBefore < 100, goneAfter);
    } finally {
      for (const socket of sockets) socket.destroy();
    }
    await until("the process has let go of all", async () => countFiles() - filesBefore < 100, 20);
  },
);
