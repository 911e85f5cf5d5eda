import type { z } from "@hono/zod-openapi";
import { bodyLimit } from "hono/body-limit";
import type { ApiContext } from "../context.ts";
import { withDeadline } from "../deadline.ts";
import { notHttp, Problem } from "../problem.ts";
import { badParameters } from "../read-parameters.ts";

/** Several times the largest signature that contract wallets make. */
const LARGEST_BYTES = 32_768;
const LONGEST_MS = 5_000;

const limitBody = bodyLimit({
  maxSize: LARGEST_BYTES,
  onError: () => {
    throw new Problem("body-too-large", `A body may have ${LARGEST_BYTES} bytes here.`);
  },
});

/** Reads what a page has sent: JSON, of bounded size, in time. */
export const readJson = async <Schema extends z.ZodType>(c: ApiContext, schema: Schema): Promise<z.output<Schema>> => {
  // A form of another site could send anything else without being asked first.
  if (!/^application\/json\s*(;|$)/i.test(c.req.header("Content-Type") ?? "")) {
    throw new Problem("unsupported-body", "The body has to be JSON, with Content-Type: application/json.");
  }
  const parsed = schema.safeParse(await withDeadline(LONGEST_MS, readBody(c), tooSlow));
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
    // Whoever asked is gone.
    throw error instanceof Problem ? error : notHttp();
  });
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

const tooSlow = () =>
  new Problem("request-timeout", `The body did not arrive within ${LONGEST_MS / 1000} s.`, {
    headers: { Connection: "close" },
  });
