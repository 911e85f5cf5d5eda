import type { Middleware } from "../exchange.ts";
import { Problem } from "../problem.ts";

const METHODS = ["GET", "HEAD", "OPTIONS"];
/** Several times the longest question that makes sense. */
const LONGEST_URL = 4096;

/** What is said to a method that no route has. */
export const methodNotAllowed = (headers: Record<string, string> = {}) => methodNotAmong(METHODS, headers);

/** What is said to a method that a route does not have. */
export const methodNotAmong = (methods: readonly string[], headers: Record<string, string> = {}) =>
  new Problem("method-not-allowed", `This service only answers ${methods.join(", ")}.`, {
    headers: { ...headers, Allow: methods.join(", ") },
  });

/** Refuses what no route can answer before any work is done. */
export const refuseEarly: Middleware = (next) => (exchange) => {
  if (!METHODS.includes(exchange.method)) throw methodNotAllowed();
  if (exchange.url.length > LONGEST_URL) {
    throw new Problem("url-too-long", `A URL may have ${LONGEST_URL} characters here; this one has more.`);
  }
  return next(exchange);
};
