import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { onTestFinished } from "vitest";
import { findFreePort } from "../../stack/ports.ts";

/**
 * Another address of a database, which a test opens and closes: as if Postgres were not running.
 * It is closed at first, and when the test is over.
 */
export const createDatabaseRelay = async (databaseUrl: string) => {
  const { hostname, port: databasePort } = new URL(databaseUrl);
  const url = new URL(databaseUrl);
  url.port = String(await findFreePort());
  const sockets = new Set<Socket>();
  let server: Server | undefined;

  const open = async (): Promise<void> => {
    server = createServer((near) => {
      const far = connect(Number(databasePort), hostname);
      for (const [from, to] of [
        [near, far],
        [far, near],
      ] as const) {
        sockets.add(from);
        from.pipe(to);
        from.on("error", () => {});
        from.on("close", () => {
          sockets.delete(from);
          to.destroy();
        });
      }
    });
    await once(server.listen(Number(url.port), "127.0.0.1"), "listening");
  };
  const close = (): void => {
    server?.close();
    for (const socket of sockets) socket.destroy();
  };
  onTestFinished(close);
  return { url: url.href, open, close };
};
