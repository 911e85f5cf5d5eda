import type { Exchange, Reply } from "./exchange.ts";
import type { Log } from "./log.ts";
import type { Traffic } from "./metrics/traffic.ts";

/** Takes note of a request and its answer, and hands that on. */
export type RequestLog = (exchange: Exchange, reply: Reply) => Reply;

/**
 * Counts each request, and writes a line for it. By its route, not its URL: wallets are nobody's business, and people put
 * API keys into the strangest places.
 */
export const createRequestLog = ({ log, addLine }: Log, traffic: Traffic): RequestLog => {
  const isEnabled = log.isLevelEnabled("info");
  const level = log.levels.values.info;

  return ({ requestId, method, route, startedAt }, reply) => {
    const { status } = reply;
    const ms = Math.round((performance.now() - startedAt) * 1000) / 1000;
    traffic.count(route, status, ms / 1000);
    if (status >= 500) {
      log.warn({ requestId, method, route, status, ms }, "Request failed");
    } else if (isEnabled) {
      // As pino would write it, which takes ten times as long to find out that nothing here needs to be escaped.
      addLine(
        `{"level":${level},"time":${Date.now()},"requestId":"${requestId}","method":"${method}","route":"${route}","status":${status},"ms":${ms},"msg":"Request"}`,
      );
    }
    return reply;
  };
};
