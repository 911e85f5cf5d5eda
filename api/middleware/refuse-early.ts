import type { IncomingMessage } from "node:http";
import type { ApiMiddleware } from "../context.ts";
import { notHttp, Problem } from "../problem.ts";

const HOST = /^(?:[\w.-]+|\[[\da-f:.]+\])(?::(\d{1,5}))?$/i;
const HIGHEST_PORT = 65_535;
/** Several times the longest question that makes sense. */
const LONGEST_URL = 4096;

/** Refuses a request that does not say for whom it is, or says so twice: a proxy could take it for another one. */
export const requireHost: ApiMiddleware = async (c, next) => {
  if (!hasHost(c.env.incoming)) throw notHttp();
  await next();
};

const hasHost = ({ headers, rawHeaders, httpVersion }: IncomingMessage): boolean => {
  // HTTP 1.0 does without a host, as in old health checks.
  if (headers.host === undefined) return httpVersion === "1.0";
  const [isHost, port = "0"] = HOST.exec(headers.host) ?? [];
  if (isHost === undefined || Number(port) > HIGHEST_PORT) return false;
  const names = rawHeaders.filter(
    (text, index) => index % 2 === 0 && text.length === 4 && text.toLowerCase() === "host",
  );
  return names.length === 1;
};

export const refuseLongUrls: ApiMiddleware = async (c, next) => {
  if ((c.env.incoming.url ?? "").length > LONGEST_URL) {
    throw new Problem("url-too-long", `A URL may have ${LONGEST_URL} characters here; this one has more.`);
  }
  await next();
};
