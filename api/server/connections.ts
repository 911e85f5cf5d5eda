import type { Server } from "node:http";
import type { Socket } from "node:net";

/** Connections that may be open, some 60 MB. One more closes the oldest idle connection. */
const MAX_CONNECTIONS = 10_000;
/** Requests in flight after which nothing more is read from a connection: pipelining gives no client an advantage. */
const MAX_IN_FLIGHT_PER_CONNECTION = 32;
/** Requests in flight, some 100 MB. Above this, connections that pipeline are closed. */
const MAX_IN_FLIGHT = 20_000;

type Connection = { hasRequested: boolean; inFlight: number };

/**
 * Tracks the requests in flight of each connection, and bounds both. When a server stops, Node itself never closes a
 * connection that has sent no request.
 */
export class Connections {
  /** Oldest first. */
  readonly #connections = new Map<Socket, Connection>();
  #inFlight = 0;

  constructor(server: Server) {
    server.on("connection", (socket) => this.#accept(socket));
    server.on("request", ({ socket }, response) => {
      this.#startRequest(socket);
      response.on("close", () => this.#endRequest(socket));
    });
  }

  hasRequestsInFlight(socket: Socket): boolean {
    return (this.#connections.get(socket)?.inFlight ?? 0) > 0;
  }

  /** Closes idle connections. @param includesUnused - also those that have sent no request yet */
  closeIdle(includesUnused: boolean): void {
    for (const [socket, { hasRequested, inFlight }] of this.#connections) {
      const isIdle = inFlight === 0 && socket.writableLength === 0;
      if (isIdle && (hasRequested || includesUnused)) socket.destroy();
    }
  }

  closeAll(): void {
    for (const socket of this.#connections.keys()) socket.destroy();
  }

  #accept(socket: Socket): void {
    if (this.#connections.size >= MAX_CONNECTIONS && !this.#closeOldestIdle()) {
      socket.destroy();
      return;
    }
    const connection = { hasRequested: false, inFlight: 0 };
    this.#connections.set(socket, connection);
    socket.once("close", () => {
      this.#connections.delete(socket);
      // The responses of pipelined requests that wait for their turn emit no "close".
      this.#inFlight -= connection.inFlight;
      connection.inFlight = 0;
    });
    // Node resumes a connection after each request that it has read.
    socket.on("resume", () => {
      if (connection.inFlight >= MAX_IN_FLIGHT_PER_CONNECTION) socket.pause();
    });
  }

  #closeOldestIdle(): boolean {
    for (const [socket, { inFlight }] of this.#connections) {
      if (inFlight > 0) continue;
      this.#connections.delete(socket);
      socket.destroy();
      return true;
    }
    return false;
  }

  #startRequest(socket: Socket): void {
    const connection = this.#connections.get(socket);
    if (!connection) return;
    connection.hasRequested = true;
    this.#inFlight++;
    if (++connection.inFlight === MAX_IN_FLIGHT_PER_CONNECTION) socket.pause();
    if (connection.inFlight > 1 && this.#inFlight > MAX_IN_FLIGHT) socket.destroy();
  }

  #endRequest(socket: Socket): void {
    const connection = this.#connections.get(socket);
    if (!connection || connection.inFlight === 0) return;
    this.#inFlight--;
    if (connection.inFlight-- === MAX_IN_FLIGHT_PER_CONNECTION) socket.resume();
  }
}
