import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

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
