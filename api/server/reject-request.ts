import type { Socket } from "node:net";
import { malformedRequest, methodNotAllowed, Problem, problemDocument } from "../problem.ts";

// Rejects requests that never reach the app.

export const MAX_HEADER_BYTES = 8192;

/** Pages of any origin may read a rejection too. */
const ANY_ORIGIN = { "Access-Control-Allow-Origin": "*" };

/** Time that a client has to close a connection after a rejection. */
const CLOSE_TIMEOUT_MS = 1_000;

export const respondMalformed = (): Response => {
  const { status, headers, body } = problemDocument(malformedRequest(ANY_ORIGIN));
  return new Response(body, { status, headers });
};

/** Rejects a CONNECT. Node would close its connection without a response. */
export const rejectConnect = (socket: Socket): void => reject(socket, methodNotAllowed(undefined, ANY_ORIGIN));

/** Rejects a request that Node could not parse. */
export const rejectUnparsed = (socket: Socket, { code }: NodeJS.ErrnoException): void =>
  reject(socket, problemOf(code));

const problemOf = (code: string | undefined): Problem => {
  const extras = { headers: ANY_ORIGIN };
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return new Problem("headers-too-large", `URL and headers may have ${MAX_HEADER_BYTES} bytes together.`, extras);
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new Problem("request-timeout", "The request did not arrive in time.", extras);
    default:
      return malformedRequest(ANY_ORIGIN);
  }
};

/** Writes a problem document to a socket, and closes the connection. */
const reject = (socket: Socket, problem: Problem): void => {
  socket.on("error", () => socket.destroy());
  const { status, headers, body } = problemDocument(problem);
  const lines = Object.entries({ ...headers, "Content-Length": Buffer.byteLength(body), Connection: "close" });
  const head = lines.map(([name, value]) => `${name}: ${value}`).join("\r\n");
  socket.end(`HTTP/1.1 ${status} ${problem.problem}\r\n${head}\r\n\r\n${body}`);
  // The client's side is still open, and nothing else would close it.
  setTimeout(() => socket.destroy(), CLOSE_TIMEOUT_MS).unref();
};
