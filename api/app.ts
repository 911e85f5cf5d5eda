import { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { Logger } from "pino";
import type { Source } from "./answering.ts";
import { type Env, type Exchange, type Handler, openExchange, respond, UNKNOWN_ROUTE } from "./exchange.ts";
import type { Log } from "./log.ts";
import { type Admission, admit } from "./middleware/admit.ts";
import { preflight } from "./middleware/preflight.ts";
import { refuseEarly } from "./middleware/refuse-early.ts";
import { describeService } from "./openapi.ts";
import { PathRouter } from "./path-router.ts";
import { Problem, problemDocument } from "./problem.ts";
import { createRequestLog } from "./request-log.ts";
import { addChecks } from "./routes/checks.ts";
import { addHealth, type Build } from "./routes/health.ts";
import { addLists } from "./routes/lists.ts";
import { addReference } from "./routes/reference.ts";
import type { Routes } from "./routes/routes.ts";

/** The whole service, apart from the server that it runs on. */
export const createApp = (source: Omit<Source, "log">, admission: Admission, build: Build, { log, addLine }: Log) => {
  // A slash at the end makes no difference.
  const app = new OpenAPIHono<Env>({ strict: false, router: new PathRouter() });
  const { traffic } = admission.metrics;
  const note = createRequestLog({ log, addLine }, traffic);
  const admitted = admit(admission);

  // Middleware is put around a handler here, once. Hono's own is put together anew for each request, and
  // makes promises where there is nothing to wait for.
  const serve = (route: string, isLimited: boolean, handler: Handler) => {
    traffic.addRoute(route);
    const early = refuseEarly(handler);
    const answer = preflight(isLimited ? admitted(early) : early);

    return (context: Context<Env>): Response | Promise<Response> => {
      const exchange = openExchange(context, route);
      try {
        const response = answer(exchange);
        if (!(response instanceof Promise)) return note(exchange, response);
        return response.then(
          (answered) => note(exchange, answered),
          (error) => note(exchange, answerError(error, exchange, log)),
        );
      } catch (error) {
        return note(exchange, answerError(error, exchange, log));
      }
    };
  };
  const routes: Routes = {
    registry: app.openAPIRegistry,
    get: (path, handler) => app.get(path, serve(path, isRegistry(path), handler)),
  };

  addChecks(routes, source);
  addLists(routes, { ...source, log });
  addHealth(routes, source.shards, build);
  const document = describeService(app, build.version);
  const json = JSON.stringify(document);
  routes.get("/openapi.json", (exchange) => respond(exchange, 200, json, { "Content-Type": "application/json" }));
  addReference(routes, document);

  const nothingHere: Handler = () => {
    throw new Problem("not-found", "There is nothing at this path. /docs lists what there is.");
  };
  const limited = serve(UNKNOWN_ROUTE, true, nothingHere);
  const unlimited = serve(UNKNOWN_ROUTE, false, nothingHere);
  app.notFound((context) => (isRegistry(context.req.path) ? limited : unlimited)(context));
  return { app, document };
};

/** What is limited, also where there is nothing. */
const isRegistry = (path: string): boolean => path === "/registry" || path.startsWith("/registry/");

/** Whatever is thrown on the way of a request is answered here. */
const answerError = (error: unknown, exchange: Exchange, log: Logger): Response => {
  const { status, headers, body } = problemDocument(
    error instanceof Problem ? error : unexpected(error, exchange.requestId, log),
  );
  return respond(exchange, status, body, headers);
};

const unexpected = (error: unknown, requestId: string, log: Logger): Problem => {
  log.error({ err: error, requestId }, "Unexpected error");
  return new Problem("internal-error", `Something went wrong here. Its number is ${requestId}.`);
};
