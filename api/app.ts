import { randomBytes } from "node:crypto";
import { OpenAPIHono } from "@hono/zod-openapi";
import { cors } from "hono/cors";
import { requestId } from "hono/request-id";
import type { Logger } from "pino";
import { loadAssets } from "../web/build.ts";
import { PAGES } from "../web/pages.ts";
import { addBulkChecks } from "./bulk/bulk-routes.ts";
import { ChangeFeed } from "./changes/change-feed.ts";
import { addChanges } from "./changes/change-routes.ts";
import type { ApiContext, ApiEnv, ApiMiddleware } from "./context.ts";
import type { Database } from "./database/database.ts";
import { DelegationChecks } from "./delegations/check-delegation.ts";
import { addChecks } from "./delegations/check-routes.ts";
import { addLists } from "./delegations/list-routes.ts";
import { addDeveloperRoutes, DEVELOPER_ROUTES, keepPrivate } from "./developers/developer-routes.ts";
import { VerificationLimits } from "./developers/verification-limits.ts";
import { addHealth, type Build } from "./health/health-routes.ts";
import { StateDigests } from "./health/state-digests.ts";
import { InsightsCache } from "./insights/insights-cache.ts";
import { addInsights } from "./insights/insights-routes.ts";
import { readInsights } from "./insights/read-insights.ts";
import { KeyDirectory } from "./keys/key-directory.ts";
import { KeyUsage } from "./keys/key-usage.ts";
import { isPeerListed, type TrustedProxies } from "./limits/client-address.ts";
import type { Limiter } from "./limits/shared-window.ts";
import { createMetrics } from "./metrics/metrics.ts";
import { admit, admitToDeveloperPage } from "./middleware/admit.ts";
import { identify } from "./middleware/identify.ts";
import { Observer } from "./middleware/observe.ts";
import { rejectLongUrls } from "./middleware/reject-long-urls.ts";
import { takeTurns } from "./middleware/take-turns.ts";
import { addNetworks } from "./networks/network-routes.ts";
import { describeService } from "./openapi.ts";
import { addDocument, addPages } from "./pages/page-routes.ts";
import { renderReference } from "./pages/render-reference.ts";
import { methodNotAllowed, Problem } from "./problem.ts";
import { Proofs } from "./proofs/proofs.ts";
import { EXPOSED_HEADERS, respondProblem } from "./respond.ts";
import type { ApiSettings } from "./settings.ts";
import { Shards } from "./shards/shards.ts";
import { addWalletQuestions } from "./wallets/wallet-routes.ts";
import { describeWebhooks } from "./webhooks/describe-webhooks.ts";
import { createSender } from "./webhooks/send-message.ts";
import { WebhookWorker } from "./webhooks/webhook-worker.ts";

type AppDependencies = {
  /** Has API keys and sessions. Never a replica: a new key works at once, and a revoked one for a minute at most. */
  primary: Database;
  /** Has the indexes: the primary, or a replica of it. */
  database: Database;
  limiter: Limiter;
  build: Build;
  log: Logger;
  /** For tests: a clock instead of `performance.now`. */
  now?: (() => number) | undefined;
};

/** Creates the Hono app, without a server: all middleware, routes and pages, and the parts that run in the background. */
export const createApp = async (
  settings: ApiSettings,
  { primary, database, limiter, build, log, now }: AppDependencies,
) => {
  const { trustedProxies, publicUrl, keysPerWallet, hasDeveloperPage } = settings;
  const shards = new Shards(database, settings, now);
  const digests = new StateDigests(database, shards);
  const metrics = createMetrics({ database, primary, shards, limiter, version: build.version });
  const { batches } = metrics;
  const keys = new KeyDirectory(primary, batches.keys, now);
  const usage = new KeyUsage(primary);
  const insights = new InsightsCache(
    () => readInsights(database, shards),
    (error) => log.error({ err: error }, "Cannot read insights"),
  );
  const feed = new ChangeFeed({
    database,
    shards,
    load: metrics.changes,
    onError: (error) => log.error({ err: error }, "Cannot read changes"),
  });
  const webhooks =
    settings.webhooks &&
    new WebhookWorker({
      database: primary,
      shards,
      feed,
      send: createSender(settings.webhooks),
      load: metrics.webhooks,
      log,
    });
  const checks = new DelegationChecks(database, batches.checks);
  const { proofRpcUrls: rpcUrls } = settings;
  const proofs = new Proofs({ database, primary, shards, checks, rpcUrls, outcomes: metrics.proofs, log });
  const dependencies = { database, shards, batches, checks, proofs, feed, log };

  const observer = new Observer(log, metrics);
  const app = new OpenAPIHono<ApiEnv>({ strict: false });

  // The middleware, in the order in which requests pass it: no route is without it.
  app.use(requestId({ headerName: "", generator: createRequestId(trustedProxies) }));
  app.use(observer.observe);
  if (hasDeveloperPage) app.use(DEVELOPER_ROUTES, keepPrivate);
  app.use(identify({ keys, limit: limiter.limit, trustedProxies, now }));
  app.use(admit({ usage, limiter, metrics, now }));
  app.use(takeTurns(metrics));
  if (hasDeveloperPage) {
    const contracts = { rpcUrls: settings.signInRpcUrls, limits: new VerificationLimits(now) };
    const owners = settings.webhooks && { ...settings.webhooks, shards };
    const page = { database: primary, keys, contracts, publicUrl, keysPerWallet, trustedProxies, webhooks: owners };
    addDeveloperRoutes(app, page, admitToDeveloperPage(limiter));
  }
  app.options("/registry/checks", setRequestId, answerPreflight(["POST", "OPTIONS"], ["X-API-KEY", "Content-Type"]));
  app.options("/changes", setRequestId, answerPreflight(["GET", "HEAD", "OPTIONS"], ["X-API-KEY", "Last-Event-ID"]));
  app.options("*", setRequestId, answerPreflight(["GET", "HEAD", "OPTIONS"], ["X-API-KEY"]));
  app.use(rejectLongUrls);

  addChecks(app, dependencies);
  addLists(app, dependencies);
  addBulkChecks(app, dependencies);
  addWalletQuestions(app, dependencies);
  addChanges(app, dependencies);
  addNetworks(app, dependencies);
  addInsights(app, insights);
  addHealth(app, { ...dependencies, digests }, build);
  describeWebhooks(app);
  const document = describeService(app, build.version, hasDeveloperPage);
  await addDocument(app, "/openapi.json", JSON.stringify(document), "application/json");
  const pages = PAGES.filter(({ name }) => hasDeveloperPage || name !== "developers");
  await addPages(app, await loadAssets(), pages, { reference: await renderReference(document) });

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
  return { app, document, shards, digests, metrics, usage, feed, webhooks };
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
