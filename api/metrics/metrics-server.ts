import { createServer, type Server } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { getRequestListener } from "@hono/node-server";
import { Hono } from "hono";
import type { Metrics } from "./metrics.ts";

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
  const app = new Hono();
  app.get("/metrics", async (c) => c.body(await write(), 200, { "Content-Type": metrics.contentType }));
  app.all("/metrics", (c) => c.body(null, 405, { Allow: "GET, HEAD" }));
  app.onError((error, c) => {
    onError(error);
    return c.body(null, 500);
  });
  return new Promise((resolve, reject) => {
    const server = createServer(getRequestListener(app.fetch));
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
