import type { ApiMiddleware } from "../context.ts";
import { Problem } from "../problem.ts";

/** Several times the length of the longest meaningful request. */
const MAX_URL_LENGTH = 4096;

export const rejectLongUrls: ApiMiddleware = async (c, next) => {
  if ((c.env.incoming.url ?? "").length > MAX_URL_LENGTH) {
    throw new Problem("url-too-long", `A URL may have at most ${MAX_URL_LENGTH} characters.`);
  }
  await next();
};
