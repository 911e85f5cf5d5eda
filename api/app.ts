import { randomBytes } from "node:crypto";
import { OpenAPIHono } from "@hono/zod-openapi";
import { except } from "hono/combine";
import { cors } from "hono/cors";
import { requestId } from "hono/request-id";
import type { Logger } from "pino";
import type { Assets } from "../web/build.ts";
import { PAGES } from "../web/pages.ts";
import type { ApiContext, ApiEnv, ApiMiddleware } from "./context.ts";
import type { Insights } from "./insights.ts";
import { type Admission, admit, admitToPortal } from "./middleware/admit.ts";
import { Observer } from "./middleware/observe.ts";
import { refuseLongUrls } from "./middleware/refuse-long-urls.ts";
import { describeService } from "./openapi.ts";
import { methodNotAllowed, Problem } from "./problem.ts";
import { renderReference } from "./reference/render-reference.ts";
import { EXPOSED_HEADERS, respond, respondProblem } from "./respond.ts";
import { addRoute } from "./routes/add-operation.ts";
import { addChecks } from "./routes/checks.ts";
import { addExplorer } from "./routes/explorer.ts";
import { addHealth, type Build } from "./routes/health.ts";
import { addInsights } from "./routes/insights.ts";
import { addLists } from "./routes/lists.ts";
import { addPages } from "./routes/pages.ts";
import { addPortal, type Portal } from "./routes/portal.ts";
import type { Source } from "./source.ts";
import type { StateDigests } from "./state-digests.ts";

/** The whole service, apart from the server that it runs on. */
export const createApp = (
  source: Omit<Source, "log"> & { digests: StateDigests; insights: Insights },
  admission: Admission,
  build: Build,
  log: Logger,
  assets: Assets,
  portal: Portal | null,
) => {
  const observer = new Observer(log, admission.metrics);
  const app = new OpenAPIHono<ApiEnv>({ strict: false });

  // Every request goes through these, in this order.
  app.use(requestId({ headerName: "", generator: nameRequest }));
  app.use(observer.observe);
  if (portal) addPortal(app, portal, admitToPortal(admission));
  app.options("*", withRequestId, preflight);
  const admitted = admit(admission);
  app.use("/registry/*", admitted);
  app.use("/explorer/*", except("/explorer/networks", admitted));
  app.use(refuseLongUrls);

  addChecks(app, { ...source, log });
  addLists(app, { ...source, log });
  addExplorer(app, source);
  addInsights(app, source.insights);
  addHealth(app, source, build);
  const document = describeService(app, build.version, portal !== null);
  const json = JSON.stringify(document);
  addRoute(app, "/openapi.json", (c) => respond(c, 200, json, { "Content-Type": "application/json" }));
  const pages = PAGES.filter(({ name }) => portal !== null || name !== "developers");
  addPages(app, assets, pages, { reference: renderReference(document) });

  app.notFound((c) => {
    const isRead = c.req.method === "GET" || c.req.method === "HEAD";
    return respondProblem(c, isRead ? nothingHere() : methodNotAllowed());
  });
  app.onError((error, c) => {
    if (error instanceof Problem) return respondProblem(c, error);
    const requestId = c.get("requestId");
    log.error({ err: error, requestId }, "Unexpected error");
    return respondProblem(c, new Problem("internal-error", `Something went wrong here. Its number is ${requestId}.`));
  });

  observer.addRoutes(app.routes);
  return { app, document };
};

/** Ids of this process's own: a number each, after what tells it from all other processes. */
const PROCESS_ID = randomBytes(8).toString("hex");
let requests = 0;

/** A request keeps the id that a proxy has given it. */
const nameRequest = (c: ApiContext): string => {
  const given = c.req.header("X-Request-Id");
  return given !== undefined && /^[\w\-=]{1,255}$/.test(given) ? given : `${PROCESS_ID}-${++requests}`;
};

const withRequestId: ApiMiddleware = async (c, next) => {
  c.header("X-Request-Id", c.get("requestId"));
  return next();
};

/** Tells a browser what it may ask from a page of any other origin. */
const preflight = cors({
  origin: "*",
  allowMethods: ["GET", "HEAD", "OPTIONS"],
  allowHeaders: ["X-API-KEY"],
  exposeHeaders: EXPOSED_HEADERS,
  maxAge: 86_400,
});

const nothingHere = () => new Problem("not-found", "There is nothing at this path. /docs lists what there is.");
