import type { Handler, Middleware } from "../exchange.ts";
import type { Handlers } from "../routes/routes.ts";
import { methodNotAmong } from "./refuse-early.ts";

/** Answers our own pages alone. A browser that asks for another origin whether it may is refused like any method. */
export const privately = (handlers: Handlers, admitted: Middleware): Handler => {
  const methods = Object.keys(handlers);
  const byMethod = new Map(Object.entries(handlers).map(([method, handler]) => [method, admitted(handler)]));
  return (exchange) => {
    exchange.isPrivate = true;
    const handler = byMethod.get(exchange.method);
    if (!handler) throw methodNotAmong(methods);
    return handler(exchange);
  };
};
