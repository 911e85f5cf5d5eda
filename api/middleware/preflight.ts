import { type Middleware, respond } from "../exchange.ts";

/** What a page of another origin may read of an answer. */
export const EXPOSED_HEADERS = [
  "X-Indexed-Block",
  "X-Indexed-Block-Timestamp",
  "X-Finalized-Block",
  "RateLimit-Policy",
  "RateLimit",
  "Retry-After",
  "Link",
  "X-Request-Id",
].join();

const PREFLIGHT_HEADERS = {
  "Access-Control-Allow-Methods": "GET,HEAD,OPTIONS",
  "Access-Control-Allow-Headers": "X-API-KEY",
  "Access-Control-Max-Age": "86400",
  Vary: "Access-Control-Request-Headers",
};

/** Answers a browser that asks whether it may ask. */
export const preflight: Middleware = (next) => (exchange) =>
  exchange.method === "OPTIONS" ? respond(exchange, 204, null, PREFLIGHT_HEADERS) : next(exchange);
