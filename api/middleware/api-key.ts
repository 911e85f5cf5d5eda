import { createMiddleware } from "hono/factory";
import { Problem } from "../problem.ts";

/** Refuses API keys that are not known. None is issued yet, so none is known. */
export const apiKey = createMiddleware(async ({ req }, next) => {
  if (req.header("X-API-KEY")) {
    throw new Problem("unknown-key", "This API key is not known. Leave out X-API-KEY to ask without one.");
  }
  await next();
});
