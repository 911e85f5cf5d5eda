import type { ApiMiddleware } from "../context.ts";
import { Problem } from "../problem.ts";

/** Several times the longest question that makes sense. */
const LONGEST_URL = 4096;

export const refuseLongUrls: ApiMiddleware = async (c, next) => {
  if ((c.env.incoming.url ?? "").length > LONGEST_URL) {
    throw new Problem("url-too-long", `A URL may have ${LONGEST_URL} characters here; this one has more.`);
  }
  await next();
};
