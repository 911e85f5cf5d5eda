import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { expect } from "vitest";
import { readResidentMb, watchMemory } from "../../support/processes.ts";
import { measureAlone, test } from "../../support/service-test.ts";
import { waitUntil } from "../../support/setup.ts";

// Clients that keep connections open. docs/security.md gives the limit and the cost.

const MOST = 10_000;
const MORE = 200;
const AT_ONCE = 200;

/** Each end needs a file descriptor per connection, and some for itself. */
const room = Number(execFileSync("sh", ["-c", "ulimit -n"]).toString()) - 1_000;
const count = Math.min(MOST + MORE, room);

const open = (port: number, request: string): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.on("error", () => {});
      if (request === "") resolve(socket.resume());
      else socket.write(request);
    });
    socket.once("data", () => resolve(socket.resume()));
  });

/** Opens connections in groups that fit the accept queue. */
const openMany = async (port: number, request: string, sockets: Socket[]) => {
  while (sockets.length < count) {
    const next = Math.min(AT_ONCE, count - sockets.length);
    sockets.push(...(await Promise.all(Array.from({ length: next }, () => open(port, request)))));
  }
};

test.runIf(process.platform === "linux").for([
  ["sent a request", "GET /health HTTP/1.1\r\nHost: x\r\n\r\n", 0],
  ["never send a request", "", 14],
] as const)(
  `${count} idle connections that %s use less than 150 MB, and other clients are served`,
  async ([, request, goneAfter], { service: api }) => {
    const countFiles = () => readdirSync(`/proc/${api.pid}/fd`).length;
    const filesBefore = countFiles();
    const readHeld = () => countFiles() - filesBefore;
    const sockets: Socket[] = [];
    const alone = await measureAlone(api);
    const before = readResidentMb(api.pid);
    const readPeak = watchMemory(api.pid);
    try {
      await openMany(api.port, request, sockets);
      await waitUntil("the number of connections is within the limit", readHeld, 10, (held) => held <= MOST);
      const meanwhile = await measureAlone(api);
      expect(readPeak() - before).toBeLessThan(150);
      expect(meanwhile.median).toBeLessThan(alone.median * 3 + 50);
      expect(meanwhile.slowest).toBeLessThan(2_000);
      const oldest = sockets.slice(0, Math.max(0, count - MOST));
      expect(oldest.every(({ destroyed, readableEnded }) => destroyed || readableEnded)).toBe(true);
      if (goneAfter > 0) await waitUntil("all of them are closed", readHeld, goneAfter, (held) => held < 100);
    } finally {
      readPeak();
      for (const socket of sockets) socket.destroy();
    }
    await waitUntil("the process has closed all connections", readHeld, 20, (held) => held < 100);
  },
);
