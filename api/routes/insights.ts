import { hasAlready } from "../etag.ts";
import { respond } from "../exchange.ts";
import type { Insights } from "../insights.ts";
import type { Routes } from "./routes.ts";

/** How long browsers and proxies may keep it, and for how long they may show it while they ask anew. */
const CACHING = "public, max-age=30, stale-while-revalidate=60";

/** What the insights page shows. It is the same for everybody. */
export const addInsights = (routes: Routes, insights: Insights): void => {
  routes.get("/insights/data", async (exchange) => {
    const { body, etag, readAt } = await insights.find();
    const headers = {
      "Content-Type": "application/json",
      "Cache-Control": CACHING,
      ETag: etag,
      Age: String(Math.max(0, Math.floor((Date.now() - readAt) / 1000))),
    };
    return hasAlready(exchange.incoming, etag)
      ? respond(exchange, 304, null, headers)
      : respond(exchange, 200, body, headers);
  });
};
