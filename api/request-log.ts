import type { Exchange, Reply } from "./exchange.ts";
import type { Log } from "./log.ts";
import type { Traffic } from "./metrics/traffic.ts";

/** To write out a fraction takes longer than to look it up. */
const THREE_DIGITS = Array.from({ length: 1000 }, (_, number) => String(number).padStart(3, "0"));

/** Takes note of a request and its answer, and hands that on. */
export type RequestLog = (exchange: Exchange, reply: Reply) => Reply;

/**
 * Counts each request, and writes a line for it. By its route, not its URL: wallets are nobody's business, and people put
 * API keys into the strangest places.
 */
export const createRequestLog = ({ log, addLine }: Pick<Log, "log" | "addLine">, traffic: Traffic): RequestLog => {
  const isEnabled = log.isLevelEnabled("info");
  const level = log.levels.values.info;

  return ({ requestId, method, route, startedAt }, reply) => {
    const { status } = reply;
    const microseconds = Math.round((performance.now() - startedAt) * 1000);
    traffic.count(route, status, microseconds / 1e6);
    if (status >= 500) {
      log.warn({ requestId, method, route, status, ms: microseconds / 1000 }, "Request failed");
    } else if (isEnabled) {
      // Much as pino would write it, which takes ten times as long to find out that nothing here needs to be escaped.
      addLine(
        `{"level":${level},"time":${Date.now()},"requestId":"${requestId}","method":"${method}","route":"${route}","status":${status},"ms":${Math.floor(microseconds / 1000)}.${THREE_DIGITS[microseconds % 1000]},"msg":"Request"}`,
      );
    }
    return reply;
  };
};
