import { createServer, type Server } from "node:http";
import { Counter, Gauge, Registry } from "prom-client";
import type { Limiter } from "./limits/limiter.ts";

/** What the API process counts, for Prometheus. */
export const createMetrics = ({ countClients, isShared }: Pick<Limiter, "countClients" | "isShared">) => {
  const registry = new Registry();
  // Plain numbers, which a request can count up in no time.
  const requests = { keyed: 0, admitted: 0, refused: 0 };
  new Counter({
    name: "delegation_registry_rate_limit_requests_total",
    help: "Requests to /registry: with a known key, without one and admitted, or refused.",
    labelNames: ["outcome"],
    registers: [registry],
    collect() {
      this.reset();
      for (const [outcome, count] of Object.entries(requests)) this.inc({ outcome }, count);
    },
  });
  new Gauge({
    name: "delegation_registry_rate_limit_clients",
    help: "Clients whose requests this process remembers.",
    registers: [registry],
    collect() {
      this.set(countClients());
    },
  });
  if (isShared() !== null) {
    new Gauge({
      name: "delegation_registry_rate_limit_shared",
      help: "1 while all processes limit together, 0 while their store is out of reach and each limits by itself.",
      registers: [registry],
      collect() {
        this.set(isShared() ? 1 : 0);
      },
    });
  }
  return { registry, requests };
};

export type Metrics = ReturnType<typeof createMetrics>;

/** Serves the metrics, at a place that is not public. */
export const startMetricsServer = ({ registry }: Metrics, host: string, port: number): Promise<Server> =>
  new Promise((resolve, reject) => {
    const server = createServer(async ({ url }, response) => {
      if (url !== "/metrics") {
        response.writeHead(404).end();
        return;
      }
      response.writeHead(200, { "Content-Type": registry.contentType }).end(await registry.metrics());
    });
    server.on("error", reject);
    server.listen(port, host, () => resolve(server));
  });
