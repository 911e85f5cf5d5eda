import type { ApiApp } from "../context.ts";
import type { Insights } from "../insights.ts";
import { answerUnchanged } from "../middleware/answer-unchanged.ts";
import { respond } from "../respond.ts";
import { addRoute } from "./add-operation.ts";

/** How long browsers and proxies may keep it, and for how long they may show it while they ask anew. */
const CACHING = "public, max-age=30, stale-while-revalidate=60";

/** What the insights page shows. It is the same for everybody. */
export const addInsights = (app: ApiApp, insights: Insights): void => {
  addRoute(app, "/insights/data", answerUnchanged(["Age"]), async (c) => {
    const { body, etag, readAt } = await insights.find();
    return respond(c, 200, body, {
      "Content-Type": "application/json",
      "Cache-Control": CACHING,
      ETag: etag,
      Age: String(Math.max(0, Math.floor((Date.now() - readAt) / 1000))),
    });
  });
};
