import { createServer, type IncomingMessage, type Server } from "node:http";
import type { Http2ServerRequest } from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { getRequestListener } from "@hono/node-server";
import type { ApiApp } from "./context.ts";
import { Connections } from "./server/connections.ts";
import { MAX_HEADER_BYTES, rejectConnect, rejectUnparsed, respondMalformed } from "./server/reject-request.ts";

/** Time for requests in flight to finish when the server stops: less than a supervisor waits. */
const STOP_TIMEOUT_MS = 8_000;
/** Time for a new connection to send its first request when the server stops. */
const FIRST_REQUEST_MS = 1_000;
const HEADERS_TIMEOUT_MS = 10_000;
/** Longer than proxies keep idle connections, so that the proxy closes first. */
const IDLE_TIMEOUT_MS = 75_000;
/** Maximum time in which a client reads nothing of its response. */
const STALL_TIMEOUT_MS = 60_000;

export type RunningServer = {
  port: number;
  /** Stops accepting, finishes requests in flight, and closes. */
  stop: () => Promise<void>;
};

/** Serves an app over HTTP. */
export const startServer = async (
  app: ApiApp,
  host: string,
  port: number,
  onError: (error: Error) => void,
): Promise<RunningServer> => {
  const listener = getRequestListener(
    (request, bindings) => (hasValidHost(bindings.incoming) ? app.fetch(request, bindings) : respondMalformed()),
    // The app handles its own errors. This handler gets requests that cannot become a Request.
    { hostname: "localhost", errorHandler: respondMalformed },
  );
  const server = createServer(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: HEADERS_TIMEOUT_MS,
      requestTimeout: 15_000,
      // By default, Node checks these timeouts only every 30 s.
      connectionsCheckingInterval: 1_000,
      keepAliveTimeout: IDLE_TIMEOUT_MS,
      // Node would reject a request without a host with an empty body. hasValidHost() rejects it with a problem.
      requireHostHeader: false,
    },
    listener,
  );
  server.timeout = STALL_TIMEOUT_MS;
  // Node answers a request with an upgrade, but drops requests that follow it in the same packet.
  server.prependListener("request", ({ headers }, response) => {
    if (headers.upgrade !== undefined) response.shouldKeepAlive = false;
  });
  // Node would answer an unknown expectation with an empty 417.
  server.on("checkExpectation", (request, response) => server.emit("request", request, response));
  server.on("connect", (_, socket: Socket) => rejectConnect(socket));
  const connections = new Connections(server);
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    // A rejection must not break into a response in flight.
    const canReject = error.code !== "ECONNRESET" && socket.writable && !connections.hasRequestsInFlight(socket);
    if (canReject) rejectUnparsed(socket, error);
    else socket.destroy();
  });
  await listen(server, host, port);
  server.on("error", onError);

  const { port: actualPort } = server.address() as AddressInfo;
  return { port: actualPort, stop: () => stop(server, connections) };
};

const HOST = /^(?:[\w.-]+|\[[\da-f:.]+\])(?::(\d{1,5}))?$/i;
const MAX_PORT = 65_535;

/** Requires exactly one valid Host header: with two, a proxy could pick the other one. */
const hasValidHost = ({ headers, rawHeaders, httpVersion }: IncomingMessage | Http2ServerRequest): boolean => {
  // HTTP 1.0, which old health checks use, needs no host.
  if (headers.host === undefined) return httpVersion === "1.0";
  const [host, port = "0"] = HOST.exec(headers.host) ?? [];
  if (host === undefined || Number(port) > MAX_PORT) return false;
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (rawHeaders[index]?.length === 4 && rawHeaders[index]?.toLowerCase() === "host") hosts++;
  }
  return hosts === 1;
};

const listen = (server: Server, host: string, port: number) =>
  new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject);
      resolve();
    });
  });

const stop = async (server: Server, connections: Connections): Promise<void> => {
  // Node 26 would close connections that have not sent their first request yet.
  server.closeIdleConnections = () => {};
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  // Idle connections would stay open for a next request. New ones may be about to send their first.
  const stoppedAt = Date.now();
  const closeIdle = setInterval(() => connections.closeIdle(Date.now() >= stoppedAt + FIRST_REQUEST_MS), 50);
  const closeAll = setTimeout(() => connections.closeAll(), STOP_TIMEOUT_MS);
  await closed;
  clearInterval(closeIdle);
  clearTimeout(closeAll);
};
