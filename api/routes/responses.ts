import { type RouteConfig, z } from "@hono/zod-openapi";
import { PROBLEMS, type ProblemName } from "../problem.ts";

// How the OpenAPI document describes what comes back.

const header = (description: string, type: "integer" | "string" = "integer") => ({
  description,
  schema: { type },
  required: true as const,
});

const FRESHNESS = {
  "X-Indexed-Block": header("The block at which the answer is true: the newest that the index includes."),
  "X-Indexed-Block-Timestamp": header("When that block was made, in seconds since 1970."),
  "X-Finalized-Block": header("The newest indexed block that can no longer be undone."),
};

const ProblemSchema = z
  .object({
    type: z.string().openapi({ description: "What kind of problem it is; also where it is explained." }),
    title: z.string(),
    status: z.int(),
    detail: z.string().openapi({ description: "What is wrong with this request, and what to do." }),
    errors: z
      .array(z.object({ parameter: z.string(), message: z.string() }))
      .optional()
      .openapi({ description: "For a 400: every bad parameter." }),
  })
  .openapi("Problem", { description: "A problem document, RFC 9457." });

const problem = (description: string, names: readonly ProblemName[], headers = {}) => ({
  description,
  headers,
  content: {
    "application/problem+json": {
      schema: ProblemSchema,
      examples: Object.fromEntries(
        names.map((name) => [
          name,
          { value: { type: `/docs#problem-${name}`, ...PROBLEMS[name], detail: PROBLEMS[name].title } },
        ]),
      ),
    },
  },
});

const RETRY_AFTER = { "Retry-After": header("Seconds to wait before asking again.") };

/** The responses of an operation that answers from the index. */
export const answers = (
  description: string,
  schema: z.ZodType,
  example: unknown,
  { headers = {}, hasKey = false } = {},
): RouteConfig["responses"] => ({
  200: {
    description,
    headers: { ...FRESHNESS, ...headers },
    content: { "application/json": { schema, example } },
  },
  400: problem("A parameter is bad: all that are, at once.", ["bad-parameter"]),
  ...(hasKey && { 401: problem("The API key is not known.", ["unknown-key"]) }),
  503: problem(
    "The question cannot be answered now: the chain is not indexed yet or not up to date, or the database is out of reach.",
    ["not-indexed", "stale-index", "database-unavailable", "overloaded"],
    RETRY_AFTER,
  ),
});

export const LINK = {
  Link: {
    description: 'With `limit`, where the list goes on: `<…>; rel="next"`. Absent on the last page.',
    schema: { type: "string" as const },
  },
};
