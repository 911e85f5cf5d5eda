import type { ApiApp } from "../context.ts";
import { addRoute } from "../contract/add-operation.ts";
import { respondNotModified } from "../middleware/respond-not-modified.ts";
import { respond } from "../respond.ts";
import type { InsightsCache } from "./insights-cache.ts";

const CACHE_CONTROL = "public, max-age=30, stale-while-revalidate=60";

/** Adds the data of the insights page, which is the same for everyone. */
export const addInsights = (app: ApiApp, insights: InsightsCache): void => {
  addRoute(app, "/insights/data", respondNotModified(["Age"]), async (c) => {
    const { body, etag, readAt } = await insights.find();
    return respond(c, 200, body, {
      "Content-Type": "application/json",
      "Cache-Control": CACHE_CONTROL,
      ETag: etag,
      Age: String(Math.max(0, Math.floor((Date.now() - readAt) / 1000))),
    });
  });
};
