import { createMiddleware } from "hono/factory";
import { Problem } from "../problem.ts";

const METHODS = ["GET", "HEAD", "OPTIONS"];
/** Several times the longest question that makes sense. */
const LONGEST_URL = 4096;

/** Refuses what no route can answer before any work is done. */
export const refuseEarly = createMiddleware(async ({ req }, next) => {
  if (!METHODS.includes(req.method)) {
    throw new Problem("method-not-allowed", `This service only answers ${METHODS.join(", ")}.`, {
      headers: { Allow: METHODS.join(", ") },
    });
  }
  if (req.url.length > LONGEST_URL) {
    throw new Problem("url-too-long", `A URL may have ${LONGEST_URL} characters here; this one has more.`);
  }
  await next();
});
