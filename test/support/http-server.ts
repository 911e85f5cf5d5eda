import { createServer, type RequestListener } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { onTestFinished } from "vitest";

/** Starts an HTTP server until the test is over. Records its requests, and the open connections that they came by. */
export const startHttp = async (answer: RequestListener) => {
  const seen: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((request, response) => {
    seen.push(request.url ?? "");
    sockets.add(request.socket);
    request.socket.on("close", () => sockets.delete(request.socket));
    answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen, sockets };
};
