import { OpenAPIRegistry } from "@asteasolutions/zod-to-openapi";
import type { Logger } from "pino";
import type { Assets } from "../web/build.ts";
import { PAGES } from "../web/pages.ts";
import type { Source } from "./answering.ts";
import {
  type Answer,
  type Exchange,
  type Handler,
  openExchange,
  type Reply,
  respond,
  UNKNOWN_ROUTE,
} from "./exchange.ts";
import type { Insights } from "./insights.ts";
import type { Log } from "./log.ts";
import { type Admission, admit, admitToPortal } from "./middleware/admit.ts";
import { preflight } from "./middleware/preflight.ts";
import { privately } from "./middleware/privately.ts";
import { refuseEarly } from "./middleware/refuse-early.ts";
import { describeService } from "./openapi.ts";
import { PathRouter } from "./path-router.ts";
import { notHttp, Problem, problemDocument } from "./problem.ts";
import { renderReference } from "./reference/render-reference.ts";
import { createRequestLog } from "./request-log.ts";
import { readPath } from "./request-target.ts";
import { addChecks } from "./routes/checks.ts";
import { addExplorer } from "./routes/explorer.ts";
import { addHealth, type Build } from "./routes/health.ts";
import { addInsights } from "./routes/insights.ts";
import { addLists } from "./routes/lists.ts";
import { addPages } from "./routes/pages.ts";
import { addPortal, type Portal } from "./routes/portal.ts";
import type { Routes } from "./routes/routes.ts";
import type { StateDigests } from "./state-digests.ts";

type Route = { pattern: string; answer: Handler };

/** The whole service, apart from the server that it runs on. */
export const createApp = (
  source: Omit<Source, "log"> & { digests: StateDigests; insights: Insights },
  admission: Admission,
  build: Build,
  { log, addLine }: Pick<Log, "log" | "addLine">,
  assets: Assets,
  portal: Portal | null,
) => {
  const registry = new OpenAPIRegistry();
  const router = new PathRouter<Route>();
  const { traffic } = admission.metrics;
  const note = createRequestLog({ log, addLine }, traffic);
  const admitted = admit(admission);
  const admittedToPortal = admitToPortal(admission);

  /** What a request goes through on its way to a handler, put around that once. */
  const wrap = (hasLimit: boolean, handler: Handler): Handler => {
    const early = refuseEarly(handler);
    return preflight(hasLimit ? admitted(early) : early);
  };
  const createRoute = (pattern: string, answer: Handler): Route => {
    traffic.addRoute(pattern);
    return { pattern, answer };
  };
  const routes: Routes = {
    registry,
    get: (pattern, handler) => router.add(pattern, createRoute(pattern, wrap(isLimited(pattern), handler))),
    addPrivate: (pattern, handlers) => router.add(pattern, createRoute(pattern, privately(handlers, admittedToPortal))),
  };

  addChecks(routes, source);
  addLists(routes, { ...source, log });
  addExplorer(routes, source);
  addInsights(routes, source.insights);
  addHealth(routes, source, build);
  if (portal) addPortal(routes, portal);
  const document = describeService(registry, build.version, portal !== null);
  const json = JSON.stringify(document);
  routes.get("/openapi.json", (exchange) => respond(exchange, 200, json, { "Content-Type": "application/json" }));
  const pages = PAGES.filter(({ name }) => portal !== null || name !== "developers");
  addPages(routes, assets, pages, { reference: renderReference(document) });

  const nothingHere: Handler = () => {
    throw new Problem("not-found", "There is nothing at this path. /docs lists what there is.");
  };
  const unreadable: Handler = () => {
    throw notHttp();
  };
  const limited = createRoute(UNKNOWN_ROUTE, wrap(true, nothingHere));
  const unlimited = createRoute(UNKNOWN_ROUTE, wrap(false, nothingHere));
  const refused = createRoute(UNKNOWN_ROUTE, unreadable);

  const finish = (exchange: Exchange, reply: Reply): void => exchange.outgoing.reply(note(exchange, reply));
  const fail = (exchange: Exchange, error: unknown): void => {
    // Half an answer is none.
    if (exchange.outgoing.headersSent) exchange.outgoing.destroy();
    else finish(exchange, answerError(error, exchange, log));
  };

  /** Answers a request. Nothing on this way waits that need not: a promise costs more than a refusal. */
  const answer: Answer = (incoming, outgoing) => {
    const path = readPath(incoming);
    const found = path === null ? null : router.find(path);
    const route = found?.target ?? (path === null ? refused : isLimited(path) ? limited : unlimited);
    const exchange = openExchange(incoming, outgoing, path ?? "", route.pattern, found?.varying ?? "");
    try {
      const reply = route.answer(exchange);
      if (!(reply instanceof Promise)) finish(exchange, reply);
      else reply.then((made) => finish(exchange, made)).catch((error) => fail(exchange, error));
    } catch (error) {
      fail(exchange, error);
    }
  };
  return { answer, document };
};

/** What is limited, also where there is nothing: all that asks the database. */
const isLimited = (path: string): boolean => /^\/(registry|explorer)(\/|$)/.test(path) && path !== "/explorer/networks";

/** Whatever is thrown on the way of a request is answered here. */
const answerError = (error: unknown, exchange: Exchange, log: Logger): Reply => {
  const { status, headers, body } = problemDocument(
    error instanceof Problem ? error : unexpected(error, exchange.requestId, log),
  );
  return respond(exchange, status, body, headers);
};

const unexpected = (error: unknown, requestId: string, log: Logger): Problem => {
  log.error({ err: error, requestId }, "Unexpected error");
  return new Problem("internal-error", `Something went wrong here. Its number is ${requestId}.`);
};
