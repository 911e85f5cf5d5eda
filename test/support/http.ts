import { type RequestOptions, request } from "node:http";
import { connect } from "node:net";
import { text } from "node:stream/consumers";

// Requests to this machine that fetch would refuse, or change on their way.

/** The names of its headers are in lower case. */
export type Answer = { status: number; headers: NodeJS.Dict<string | string[]>; body: string };

/** Sends any method but CONNECT, a path as it is, and no headers but these. `isReused`: over a connection that stood. */
export const sendHttp = (port: number, options: RequestOptions, body = "") =>
  new Promise<Answer & { isReused: boolean }>((resolve, reject) => {
    const sent = request({ ...options, host: "127.0.0.1", port }, (response) => {
      const { statusCode: status = 0, headers } = response;
      text(response).then((body) => resolve({ status, headers, body, isReused: sent.reusedSocket }), reject);
    });
    sent.on("error", reject);
    sent.end(body);
  });

/** Sends what no client would, over a connection of its own, and reads until the server hangs up. */
export const sendBytes = async (port: number, bytes: string | Buffer, signal?: AbortSignal): Promise<Answer> => {
  const socket = connect({ port, host: "127.0.0.1", signal });
  socket.write(bytes);
  const answer = await text(socket);
  const [, status, head = "", body = ""] = /^HTTP\/1\.1 (\d{3}) .*?\r\n(.*?)\r\n\r\n(.*)$/s.exec(answer) ?? [];
  if (!status) throw new Error(`This is no answer in HTTP: ${JSON.stringify(answer)}`);
  const headers = head.split("\r\n").map((line) => {
    const [name = "", ...value] = line.split(": ");
    return [name.toLowerCase(), value.join(": ")];
  });
  return { status: Number(status), headers: Object.fromEntries(headers), body };
};
