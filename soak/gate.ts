import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** A way to a server on this machine that can be closed and opened. */
export const startGate = async (port: number) => {
  const sockets = new Set<Socket>();
  let isOpen = true;
  const server = createServer((socket) => {
    socket.on("error", () => {});
    if (!isOpen) {
      socket.destroy();
      return;
    }
    const onward = connect(port, "127.0.0.1");
    onward.on("error", () => {});
    for (const [one, other] of [
      [socket, onward],
      [onward, socket],
    ] as const) {
      sockets.add(one);
      one.pipe(other);
      one.on("close", () => {
        sockets.delete(one);
        other.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    isOpen = false;
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    close,
    open: () => {
      isOpen = true;
    },
    stop: () => {
      close();
      server.close();
    },
  };
};
