import type { z } from "@hono/zod-openapi";
import { bodyLimit } from "hono/body-limit";
import type { ApiContext } from "../context.ts";
import { withDeadline } from "../database/deadline.ts";
import { malformedRequest, Problem } from "../problem.ts";
import { badParameters } from "./define-parameters.ts";

const BODY_TIMEOUT_MS = 5_000;
/** Levels of arrays and objects, and values in all of them: more than any operation needs. */
const MAX_DEPTH = 8;
const MAX_VALUES = 20_000;

/** Creates a reader of JSON bodies up to a size. */
export const createJsonReader =
  (maxBytes: number) =>
  async <Schema extends z.ZodType>(c: ApiContext, schema: Schema): Promise<z.output<Schema>> =>
    parseBody(await readBody(c, maxBytes), schema);

/**
 * Reads the text of a JSON body, which has to arrive within 5 s. The request has no turn until it has.
 * @param hint - added to the problem of a body that is too large
 */
export const readBody = (c: ApiContext, maxBytes: number, hint = ""): Promise<string> =>
  c.get("readOutsideTurn")(() => readText(c, maxBytes, hint));

const readText = async (c: ApiContext, maxBytes: number, hint: string): Promise<string> => {
  // Forms of other sites can send any other type without a preflight.
  if (!/^application\/json\s*(;|$)/i.test(c.req.header("Content-Type") ?? "")) {
    throw new Problem("unsupported-body", "The body must be JSON, with Content-Type: application/json.");
  }
  const limitBody = bodyLimit({ maxSize: maxBytes, onError: () => Promise.reject(bodyTooLarge(maxBytes, hint)) });
  let text = "";
  const reading = limitBody(c, async () => {
    text = await c.req.text();
  }).catch((error) => {
    // The client has closed the connection.
    throw error instanceof Problem ? error : malformedRequest();
  });
  await withDeadline(BODY_TIMEOUT_MS, reading, bodyTimedOut);
  return text;
};

/** Parses a body. Throws a Problem that names every bad field. */
export const parseBody = <Schema extends z.ZodType>(text: string, schema: Schema): z.output<Schema> => {
  const parsed = schema.safeParse(parseJson(text));
  if (parsed.success) return parsed.data;
  throw badParameters(
    parsed.error.issues.map(({ path, message }) => ({ parameter: path.join(".") || "body", message })),
  );
};

const parseJson = (text: string): unknown => {
  requireBounded(text);
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

/** Rejects JSON that JSON.parse() would take long for: half a million brackets in 1 MB take 0.3 s. */
const requireBounded = (text: string): void => {
  let depth = 0;
  let values = 0;
  let isInText = false;
  for (let index = 0; index < text.length; index++) {
    const character = text[index];
    if (character === '"') isInText = !isInText;
    else if (isInText) index += character === "\\" ? 1 : 0;
    else if (character === ",") values++;
    else if (character === "]" || character === "}") depth--;
    else if (character === "[" || character === "{") {
      depth++;
      values++;
    }
    if (depth > MAX_DEPTH || values > MAX_VALUES) {
      const message = `must have at most ${MAX_DEPTH} levels and ${MAX_VALUES.toLocaleString("en")} values`;
      throw badParameters([{ parameter: "body", message }]);
    }
  }
};

// The rest of the body is not read.
const CLOSE = { headers: { Connection: "close" } };

const bodyTooLarge = (maxBytes: number, hint: string) =>
  new Problem("body-too-large", `A body may have at most ${maxBytes.toLocaleString("en")} bytes${hint}.`, CLOSE);

const bodyTimedOut = () =>
  new Problem("request-timeout", `The body did not arrive within ${BODY_TIMEOUT_MS / 1000} s.`, CLOSE);
