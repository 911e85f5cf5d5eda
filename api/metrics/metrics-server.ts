import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Metrics } from "./metrics.ts";

const METHODS = ["GET", "HEAD"];
/** Minimum time between two writes, each of which blocks the API for some 15 ms. */
const WRITE_INTERVAL_MS = 250;

/** Serves the metrics on a port that is not public. Its failures never stop the API. */
export const startMetricsServer = (
  metrics: Metrics,
  host: string,
  port: number,
  onError: (error: unknown) => void,
): Promise<Server> => {
  const write = createSharedWriter(metrics);
  const handle = async ({ method = "", url = "" }: IncomingMessage, response: ServerResponse) => {
    if (url.split("?")[0] !== "/metrics") {
      response.writeHead(404).end();
      return;
    }
    if (!METHODS.includes(method)) {
      response.writeHead(405, { Allow: METHODS.join(", ") }).end();
      return;
    }
    try {
      const text = await write();
      response.writeHead(200, { "Content-Type": metrics.contentType, "Content-Length": Buffer.byteLength(text) });
      response.end(text);
    } catch (error) {
      onError(error);
      response.writeHead(500).end();
    }
  };
  return new Promise((resolve, reject) => {
    const server = createServer(handle);
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject).on("error", onError);
      resolve(server);
    });
  });
};

/** Creates a function that writes the metrics. Calls that come too soon after a write wait, and share the next one. */
const createSharedWriter = (metrics: Metrics): (() => Promise<string>) => {
  let next: Promise<string> | undefined;
  let writtenAt = Number.NEGATIVE_INFINITY;
  const writeNext = async () => {
    await sleep(Math.max(0, writtenAt + WRITE_INTERVAL_MS - performance.now()));
    next = undefined;
    writtenAt = performance.now();
    return metrics.write();
  };
  return () => {
    next ??= writeNext();
    return next;
  };
};
