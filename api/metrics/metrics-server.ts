import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Metrics } from "./metrics.ts";

const METHODS = ["GET", "HEAD"];

/** Serves the metrics, at a place that is not public. Whatever goes wrong there ends nothing else. */
export const startMetricsServer = (
  metrics: Metrics,
  host: string,
  port: number,
  onError: (error: unknown) => void,
): Promise<Server> => {
  const answer = async ({ method = "", url = "" }: IncomingMessage, response: ServerResponse) => {
    if (url.split("?")[0] !== "/metrics") {
      response.writeHead(404).end();
      return;
    }
    if (!METHODS.includes(method)) {
      response.writeHead(405, { Allow: METHODS.join(", ") }).end();
      return;
    }
    try {
      const text = await metrics.write();
      response.writeHead(200, { "Content-Type": metrics.contentType, "Content-Length": Buffer.byteLength(text) });
      response.end(text);
    } catch (error) {
      onError(error);
      response.writeHead(500).end();
    }
  };
  return new Promise((resolve, reject) => {
    const server = createServer(answer);
    server.once("error", reject);
    server.listen(port, host, () => {
      server.off("error", reject).on("error", onError);
      resolve(server);
    });
  });
};
