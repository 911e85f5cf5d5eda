import { randomBytes } from "node:crypto";
import { OpenAPIHono } from "@hono/zod-openapi";
import { cors } from "hono/cors";
import { requestId } from "hono/request-id";
import type { Logger } from "pino";
import type { Assets } from "../web/build.ts";
import { PAGES } from "../web/pages.ts";
import { addBulkChecks } from "./bulk/bulk-routes.ts";
import type { ApiContext, ApiEnv, ApiMiddleware } from "./context.ts";
import { addChecks } from "./delegations/check-routes.ts";
import type { Dependencies } from "./delegations/dependencies.ts";
import { addLists } from "./delegations/list-routes.ts";
import {
  addDeveloperRoutes,
  DEVELOPER_ROUTES,
  type DeveloperPage,
  keepPrivate,
} from "./developers/developer-routes.ts";
import { addHealth, type Build } from "./health/health-routes.ts";
import type { StateDigests } from "./health/state-digests.ts";
import type { InsightsCache } from "./insights/insights-cache.ts";
import { addInsights } from "./insights/insights-routes.ts";
import { isPeerListed, type TrustedProxies } from "./limits/client-address.ts";
import { type Admission, admit, admitToDeveloperPage } from "./middleware/admit.ts";
import { Observer } from "./middleware/observe.ts";
import { rejectLongUrls } from "./middleware/reject-long-urls.ts";
import { takeTurns } from "./middleware/take-turns.ts";
import { addNetworks } from "./networks/network-routes.ts";
import { describeService } from "./openapi.ts";
import { addDocument, addPages } from "./pages/page-routes.ts";
import { renderReference } from "./pages/render-reference.ts";
import { methodNotAllowed, Problem } from "./problem.ts";
import { EXPOSED_HEADERS, respondProblem } from "./respond.ts";
import { addWalletQuestions } from "./wallets/wallet-routes.ts";

type AppOptions = {
  dependencies: Omit<Dependencies, "log"> & { digests: StateDigests; insights: InsightsCache };
  admission: Admission;
  build: Build;
  log: Logger;
  assets: Assets;
  /** Null: without the developer page. */
  developerPage: DeveloperPage | null;
};

/** Creates the Hono app: all middleware, routes and pages, without a server. */
export const createApp = async ({ dependencies, admission, build, log, assets, developerPage }: AppOptions) => {
  const observer = new Observer(log, admission.metrics);
  const app = new OpenAPIHono<ApiEnv>({ strict: false });

  // The middleware, in the order in which requests pass it: no route is without it.
  app.use(requestId({ headerName: "", generator: createRequestId(admission.trustedProxies) }));
  app.use(observer.observe);
  if (developerPage) app.use(DEVELOPER_ROUTES, keepPrivate);
  app.use(admit(admission));
  app.use(takeTurns(admission.metrics));
  if (developerPage) addDeveloperRoutes(app, developerPage, admitToDeveloperPage(admission.limiter));
  app.options("/registry/checks", setRequestId, answerPreflight(["POST", "OPTIONS"], ["X-API-KEY", "Content-Type"]));
  app.options("*", setRequestId, answerPreflight(["GET", "HEAD", "OPTIONS"], ["X-API-KEY"]));
  app.use(rejectLongUrls);

  addChecks(app, { ...dependencies, log });
  addLists(app, { ...dependencies, log });
  addBulkChecks(app, { ...dependencies, log });
  addWalletQuestions(app, dependencies);
  addNetworks(app, dependencies);
  addInsights(app, dependencies.insights);
  addHealth(app, dependencies, build);
  const document = describeService(app, build.version, developerPage !== null);
  await addDocument(app, "/openapi.json", JSON.stringify(document), "application/json");
  const pages = PAGES.filter(({ name }) => developerPage !== null || name !== "developers");
  await addPages(app, assets, pages, { reference: await renderReference(document) });

  app.notFound((c) => {
    const isRead = c.req.method === "GET" || c.req.method === "HEAD";
    return respondProblem(c, isRead ? notFound() : methodNotAllowed());
  });
  app.onError((error, c) => {
    if (error instanceof Problem) return respondProblem(c, error);
    const requestId = c.get("requestId");
    log.error({ err: error, requestId }, "Unexpected error");
    return respondProblem(c, new Problem("internal-error", `Unexpected error in request ${requestId}. Try again.`));
  });

  observer.addRoutes(app.routes);
  return { app, document };
};

const PROCESS_ID = randomBytes(8).toString("hex");
let requestCount = 0;

/** Keeps a request id that a trusted proxy has set, or creates one that is unique across processes. */
const createRequestId =
  (trustedProxies: TrustedProxies | null) =>
  (c: ApiContext): string => {
    const id = c.req.header("X-Request-Id");
    const isKept =
      id !== undefined &&
      /^[\w\-=]{1,255}$/.test(id) &&
      isPeerListed(c.env.incoming.socket.remoteAddress, trustedProxies);
    return isKept ? id : `${PROCESS_ID}-${++requestCount}`;
  };

const setRequestId: ApiMiddleware = async (c, next) => {
  c.header("X-Request-Id", c.get("requestId"));
  return next();
};

/** Allows pages of any origin to ask. */
const answerPreflight = (allowMethods: string[], allowHeaders: string[]) =>
  cors({ origin: "*", allowMethods, allowHeaders, exposeHeaders: EXPOSED_HEADERS, maxAge: 86_400 });

const notFound = () => new Problem("not-found", "No resource at this path. /docs lists all operations.");
