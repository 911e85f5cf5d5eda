import { createServer, type IncomingMessage, type Server } from "node:http";
import type { Http2ServerRequest } from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { getRequestListener } from "@hono/node-server";
import type { ApiApp } from "./context.ts";
import { methodNotAllowed, notHttp, Problem, problemDocument } from "./problem.ts";

const LARGEST_HEADERS = 8192;
/** How long what is under way may take when the server is asked to end: less than whoever asks will wait. */
const GRACE_MS = 8_000;
/** How long a client that was refused, or has not asked anything yet, may keep its connection open. */
const LINGER_MS = 1_000;
/** How long a client may take to send the headers of a request. */
const HEADERS_MS = 10_000;
/** How long a connection may be idle. Longer than proxies keep one: it is theirs to close. */
const IDLE_MS = 75_000;
/** How long a client may take nothing of its answer. */
const STALL_MS = 60_000;
/** For one more than these, which take some 60 MB, the oldest idle one is closed. */
const MOST_CONNECTIONS = 10_000;
/** Of a connection with so many requests under way no more are read: pipelining gets nobody ahead of others. */
const MOST_UNDER_WAY = 32;
/** With more than these under way in all, which take some 100 MB, connections that pipeline are closed. */
const MOST_UNDER_WAY_IN_ALL = 20_000;

export type RunningServer = {
  port: number;
  /** Accepts nothing more, finishes what is under way, and ends. */
  stop: () => Promise<void>;
};

/** Serves an app over HTTP. */
export const startServer = async (
  app: ApiApp,
  host: string,
  port: number,
  onError: (error: Error) => void,
): Promise<RunningServer> => {
  const answer = getRequestListener(
    (request, bindings) => (hasHost(bindings.incoming) ? app.fetch(request, bindings) : unreadable()),
    // The app answers for its own errors: what comes here could not be made a request for it.
    { hostname: "localhost", errorHandler: unreadable },
  );
  const server = createServer(
    {
      maxHeaderSize: LARGEST_HEADERS,
      headersTimeout: HEADERS_MS,
      requestTimeout: 15_000,
      // How often Node looks for what is late: by default only every 30 s.
      connectionsCheckingInterval: 1_000,
      keepAliveTimeout: IDLE_MS,
      // Node would refuse a request without one with an empty body. hasHost() refuses it too, with a problem.
      requireHostHeader: false,
    },
    answer,
  );
  server.timeout = STALL_MS;
  // Node would answer an expectation that it does not know with an empty 417.
  server.on("checkExpectation", answer);
  // A CONNECT would have its connection closed without a word.
  server.on("connect", (_, socket: Socket) => refuse(socket, methodNotAllowed(undefined, ANY_ORIGIN)));
  const connections = watchConnections(server);
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    // What is being answered on this connection must not be broken into.
    if (error.code === "ECONNRESET" || !socket.writable || connections.isBusy(socket)) socket.destroy();
    else refuse(socket, whyUnreadable(error));
  });
  await listen(server, host, port);
  server.on("error", onError);

  const { port: actualPort } = server.address() as AddressInfo;
  return { port: actualPort, stop: () => stop(server, connections) };
};

type Connections = ReturnType<typeof watchConnections>;

/**
 * Knows which connections have requests under way, and bounds both. Node itself never closes one that has not asked
 * anything yet when the server is to end.
 */
const watchConnections = (server: Server) => {
  /** How many requests each has under way; the oldest connection first. */
  const open = new Map<Socket, { hasAsked: boolean; underWay: number }>();
  let underWayInAll = 0;
  const closeOldestIdle = (): boolean => {
    for (const [socket, { underWay }] of open) {
      if (underWay > 0) continue;
      open.delete(socket);
      socket.destroy();
      return true;
    }
    return false;
  };

  server.on("connection", (socket) => {
    if (open.size >= MOST_CONNECTIONS && !closeOldestIdle()) {
      socket.destroy();
      return;
    }
    const connection = { hasAsked: false, underWay: 0 };
    open.set(socket, connection);
    socket.once("close", () => {
      open.delete(socket);
      // Those that waited for their turn are never told.
      underWayInAll -= connection.underWay;
      connection.underWay = 0;
    });
    // Node resumes a connection after each request that it has read.
    socket.on("resume", () => {
      if (connection.underWay >= MOST_UNDER_WAY) socket.pause();
    });
  });
  /** A request is under way. */
  const begin = (socket: Socket): void => {
    const connection = open.get(socket);
    if (!connection) return;
    connection.hasAsked = true;
    underWayInAll++;
    if (++connection.underWay === MOST_UNDER_WAY) socket.pause();
    if (connection.underWay > 1 && underWayInAll > MOST_UNDER_WAY_IN_ALL) socket.destroy();
  };
  /** It is answered. */
  const end = (socket: Socket): void => {
    const connection = open.get(socket);
    if (!connection || connection.underWay === 0) return;
    underWayInAll--;
    if (connection.underWay-- === MOST_UNDER_WAY) socket.resume();
  };
  server.on("request", ({ socket }, response) => {
    begin(socket);
    response.on("close", () => end(socket));
  });

  const isBusy = (socket: Socket) => (open.get(socket)?.underWay ?? 0) > 0;
  return {
    isBusy,
    /** Closes those that have been answered; and those that have never asked, if they are to. */
    closeIdle: (isPatient: boolean) => {
      for (const [socket, { hasAsked, underWay }] of open) {
        const isAnswered = underWay === 0 && socket.writableLength === 0;
        if (isAnswered && (hasAsked || !isPatient)) socket.destroy();
      }
    },
    closeAll: () => {
      for (const socket of open.keys()) socket.destroy();
    },
  };
};

/** What is refused before the app sees it is for any origin to read, too. */
const ANY_ORIGIN = { "Access-Control-Allow-Origin": "*" };

const unreadable = (): Response => {
  const { status, headers, body } = problemDocument(notHttp(ANY_ORIGIN));
  return new Response(body, { status, headers });
};

const HOST = /^(?:[\w.-]+|\[[\da-f:.]+\])(?::(\d{1,5}))?$/i;
const HIGHEST_PORT = 65_535;

/** Whether a request says for whom it is, and says so once: if it did twice, a proxy could take it for another one. */
const hasHost = ({ headers, rawHeaders, httpVersion }: IncomingMessage | Http2ServerRequest): boolean => {
  // HTTP 1.0 does without a host, as in old health checks.
  if (headers.host === undefined) return httpVersion === "1.0";
  const [isHost, port = "0"] = HOST.exec(headers.host) ?? [];
  if (isHost === undefined || Number(port) > HIGHEST_PORT) return false;
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (rawHeaders[index]?.length === 4 && rawHeaders[index]?.toLowerCase() === "host") hosts++;
  }
  return hosts === 1;
};

const whyUnreadable = ({ code }: NodeJS.ErrnoException): Problem => {
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return new Problem("headers-too-large", `URL and headers may have ${LARGEST_HEADERS} bytes together.`, {
        headers: ANY_ORIGIN,
      });
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return tooSlow();
    default:
      return notHttp(ANY_ORIGIN);
  }
};

const tooSlow = () => new Problem("request-timeout", "The request did not arrive in time.", { headers: ANY_ORIGIN });

/** Answers a request that never reaches the app, and ends its connection. */
const refuse = (socket: Socket, problem: Problem) => {
  socket.on("error", () => socket.destroy());
  const { status, headers, body } = problemDocument(problem);
  const lines = Object.entries({ ...headers, "Content-Length": Buffer.byteLength(body), Connection: "close" });
  const head = lines.map(([name, value]) => `${name}: ${value}`).join("\r\n");
  socket.end(`HTTP/1.1 ${status} ${problem.problem}\r\n${head}\r\n\r\n${body}`);
  // It is still open from the other side. Nothing else would ever end it.
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
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
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  // A connection that has been answered would stay open for the next request; one that has just been made
  // may be about to ask its first.
  const stoppedAt = Date.now();
  const closeIdle = setInterval(() => connections.closeIdle(Date.now() < stoppedAt + LINGER_MS), 50);
  const giveUp = setTimeout(() => connections.closeAll(), GRACE_MS);
  await closed;
  clearInterval(closeIdle);
  clearTimeout(giveUp);
};
