import type { z } from "@hono/zod-openapi";
import type { MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import type { ApiContext } from "../context.ts";
import { withDeadline } from "../database/deadline.ts";
import { malformedRequest, Problem } from "../problem.ts";
import { badParameters } from "./define-parameters.ts";

const BODY_TIMEOUT_MS = 5_000;

/** Creates a reader of JSON bodies up to a size. A body has to arrive within 5 s. */
export const createJsonReader = (maxBytes: number) => {
  const limitBody = bodyLimit({
    maxSize: maxBytes,
    onError: () => {
      // The rest of the body is not read.
      const headers = { Connection: "close" };
      throw new Problem("body-too-large", `A body may have at most ${maxBytes.toLocaleString("en")} bytes.`, {
        headers,
      });
    },
  });
  return async <Schema extends z.ZodType>(c: ApiContext, schema: Schema): Promise<z.output<Schema>> => {
    // Forms of other sites can send any other type without a preflight.
    if (!/^application\/json\s*(;|$)/i.test(c.req.header("Content-Type") ?? "")) {
      throw new Problem("unsupported-body", "The body must be JSON, with Content-Type: application/json.");
    }
    const parsed = schema.safeParse(await withDeadline(BODY_TIMEOUT_MS, readBody(c, limitBody), bodyTimedOut));
    if (parsed.success) return parsed.data;
    throw badParameters(
      parsed.error.issues.map(({ path, message }) => ({ parameter: path.join(".") || "body", message })),
    );
  };
};

const readBody = async (c: ApiContext, limitBody: MiddlewareHandler): Promise<unknown> => {
  let text = "";
  await limitBody(c, async () => {
    text = await c.req.text();
  }).catch((error) => {
    // The client has closed the connection.
    throw error instanceof Problem ? error : malformedRequest();
  });
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

const bodyTimedOut = () =>
  new Problem("request-timeout", `The body did not arrive within ${BODY_TIMEOUT_MS / 1000} s.`, {
    headers: { Connection: "close" },
  });
