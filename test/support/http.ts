import { createServer, type RequestListener, type RequestOptions, request } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { onTestFinished } from "vitest";

// Local requests that fetch would refuse or change.

/** Header names are in lower case. */
export type HttpAnswer = { status: number; headers: NodeJS.Dict<string | string[]>; body: string };

/** Sends any method but CONNECT, an unchanged path, and only these headers. `isReused`: over a kept-alive connection. */
export const sendHttp = (port: number, options: RequestOptions, body = "") =>
  new Promise<HttpAnswer & { isReused: boolean }>((resolve, reject) => {
    const sent = request({ ...options, host: "127.0.0.1", port }, (response) => {
      const { statusCode: status = 0, headers } = response;
      text(response).then((body) => resolve({ status, headers, body, isReused: sent.reusedSocket }), reject);
    });
    sent.on("error", reject);
    sent.end(body);
  });

/** Sends raw bytes over a new connection, and reads until the server closes it. */
export const sendBytes = async (port: number, bytes: string | Buffer, signal?: AbortSignal): Promise<HttpAnswer> => {
  const socket = connect({ port, host: "127.0.0.1", signal });
  socket.write(bytes);
  const answer = await text(socket);
  const [, status, head = "", body = ""] = /^HTTP\/1\.1 (\d{3}) .*?\r\n(.*?)\r\n\r\n(.*)$/s.exec(answer) ?? [];
  if (!status) throw new Error(`Not an HTTP response: ${JSON.stringify(answer)}`);
  const headers = head.split("\r\n").map((line) => {
    const [name = "", ...value] = line.split(": ");
    return [name.toLowerCase(), value.join(": ")];
  });
  return { status: Number(status), headers: Object.fromEntries(headers), body };
};

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
