import type { Asset } from "../../web/build.ts";
import type { ApiApp } from "../context.ts";
import { addRoute } from "../contract/add-operation.ts";
import { respondNotModified } from "../middleware/respond-not-modified.ts";
import { serveAsset } from "../pages/serve-asset.ts";
import type { InsightsCache } from "./insights-cache.ts";

const HEADERS = {
  "Content-Type": "application/json",
  "Cache-Control": "public, max-age=30, stale-while-revalidate=60",
};

/** Adds the data of the insights page and of the start page, which is the same for everyone. */
export const addInsights = (app: ApiApp, insights: InsightsCache): void => {
  for (const name of ["data", "newest"] as const) {
    let served: { asset: Asset; serve: ReturnType<typeof serveAsset> } | undefined;
    addRoute(app, `/insights/${name}`, respondNotModified(["Age"]), async (c) => {
      // The first reading may take long.
      c.get("endTurn")();
      const { [name]: asset, readAt } = await insights.find();
      if (served?.asset !== asset) served = { asset, serve: serveAsset(asset, HEADERS) };
      return served.serve(c, { Age: String(Math.max(0, Math.floor((Date.now() - readAt) / 1000))) });
    });
  }
};
