import type { z } from "@hono/zod-openapi";
import { bodyLimit } from "hono/body-limit";
import type { ApiContext } from "../context.ts";
import { badParameters } from "../contract/define-parameters.ts";
import { withDeadline } from "../database/deadline.ts";
import { malformedRequest, Problem } from "../problem.ts";

/** Several times the largest signature of a contract wallet. */
const MAX_BODY_BYTES = 32_768;
const BODY_TIMEOUT_MS = 5_000;

const limitBody = bodyLimit({
  maxSize: MAX_BODY_BYTES,
  onError: () => {
    throw new Problem("body-too-large", `A body may have at most ${MAX_BODY_BYTES} bytes.`);
  },
});

/** Reads a JSON body, with a maximum size and a timeout. */
export const readJson = async <Schema extends z.ZodType>(c: ApiContext, schema: Schema): Promise<z.output<Schema>> => {
  // Forms of other sites can send any other type without a preflight.
  if (!/^application\/json\s*(;|$)/i.test(c.req.header("Content-Type") ?? "")) {
    throw new Problem("unsupported-body", "The body must be JSON, with Content-Type: application/json.");
  }
  const parsed = schema.safeParse(await withDeadline(BODY_TIMEOUT_MS, readBody(c), bodyTimedOut));
  if (parsed.success) return parsed.data;
  throw badParameters(
    parsed.error.issues.map(({ path, message }) => ({ parameter: path.join(".") || "body", message })),
  );
};

const readBody = async (c: ApiContext): Promise<unknown> => {
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
