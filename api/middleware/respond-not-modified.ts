import { etag, RETAINED_304_HEADERS } from "hono/etag";

/** Headers of every response. */
const COMMON_HEADERS = ["Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "X-Request-Id"];

/**
 * Responds 304 when the client has the current ETag.
 * @param headers - further headers that a 304 keeps
 */
export const respondNotModified = (headers: readonly string[]) =>
  etag({ retainedHeaders: [...RETAINED_304_HEADERS, ...COMMON_HEADERS, ...headers] });
