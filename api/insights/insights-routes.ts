import type { ApiApp } from "../context.ts";
import { addRoute } from "../contract/add-operation.ts";
import { respondNotModified } from "../middleware/respond-not-modified.ts";
import { respond } from "../respond.ts";
import type { InsightsCache } from "./insights-cache.ts";

const CACHE_CONTROL = "public, max-age=30, stale-while-revalidate=60";

/** Adds the data of the insights page and of the start page, which is the same for everyone. */
export const addInsights = (app: ApiApp, insights: InsightsCache): void => {
  for (const name of ["data", "newest"] as const) {
    addRoute(app, `/insights/${name}`, respondNotModified(["Age"]), async (c) => {
      const { [name]: part, readAt } = await insights.find();
      return respond(c, 200, part.body, {
        "Content-Type": "application/json",
        "Cache-Control": CACHE_CONTROL,
        ETag: part.etag,
        Age: String(Math.max(0, Math.floor((Date.now() - readAt) / 1000))),
      });
    });
  }
};
