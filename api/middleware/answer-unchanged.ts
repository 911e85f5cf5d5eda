import { etag, RETAINED_304_HEADERS } from "hono/etag";

/** Those of every answer. */
const COMMON = ["Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "X-Request-Id"];

/**
 * Answers 304 to whoever has the content of an ETag.
 * @param headers - what else the 304 tells of those that the content has
 */
export const answerUnchanged = (headers: readonly string[]) =>
  etag({ retainedHeaders: [...RETAINED_304_HEADERS, ...COMMON, ...headers] });
