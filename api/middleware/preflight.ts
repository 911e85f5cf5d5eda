import { type Middleware, respond } from "../exchange.ts";

const PREFLIGHT_HEADERS = {
  "Access-Control-Allow-Methods": "GET,HEAD,OPTIONS",
  "Access-Control-Allow-Headers": "X-API-KEY",
  "Access-Control-Max-Age": "86400",
  Vary: "Access-Control-Request-Headers",
};

/** Answers a browser that asks whether it may ask. */
export const preflight: Middleware = (next) => (exchange) =>
  exchange.method === "OPTIONS" ? respond(exchange, 204, null, PREFLIGHT_HEADERS) : next(exchange);
