import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";
import { findFreePort } from "../../process/ports.ts";

type Options = {
  /** By default any free port. */
  listenPort?: number;
  /** Handles a connection pair; by default it forwards everything. */
  onConnection?: (client: Socket, server: Socket) => void;
};

/** Forwards all data in both directions. */
export const forwardAll = (client: Socket, server: Socket): void => {
  client.pipe(server).pipe(client);
};

/** Starts a TCP relay in front of a server, for tests that break connections. */
export const startTcpRelay = async (
  target: { host: string; port: number },
  { listenPort = 0, onConnection = forwardAll }: Options = {},
) => {
  const sockets = new Set<Socket>();
  const relay = createServer((client) => {
    const server = connect(target);
    for (const [socket, peer] of [
      [client, server],
      [server, client],
    ] as const) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        peer.destroy();
      });
    }
    onConnection(client, server);
  });
  await once(relay.listen(listenPort, "127.0.0.1"), "listening");
  const breakConnections = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (relay.address() as AddressInfo).port,
    breakConnections,
    stop: () => {
      relay.close();
      breakConnections();
    },
  };
};

/**
 * Creates a second address of a database that a test opens and closes, as if Postgres were not running.
 * It is closed at first and when the test is over.
 */
export const createDatabaseRelay = async (databaseUrl: string) => {
  const url = new URL(databaseUrl);
  const target = { host: url.hostname, port: Number(url.port) };
  const listenPort = await findFreePort();
  url.port = String(listenPort);
  let relay: Awaited<ReturnType<typeof startTcpRelay>> | undefined;
  const open = async (): Promise<void> => {
    relay = await startTcpRelay(target, { listenPort });
  };
  const close = (): void => relay?.stop();
  onTestFinished(close);
  return { url: url.href, open, close };
};
