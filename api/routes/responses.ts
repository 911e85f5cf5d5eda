import { type RouteConfig, z } from "@hono/zod-openapi";
import { notIndexed, Problem, problemDocument } from "../problem.ts";

// How the OpenAPI document describes what comes back.

/** With or without an API key, which openapi.ts describes. */
export const OPTIONAL_KEY: NonNullable<RouteConfig["security"]> = [{}, { apiKey: [] }];

const header = (description: string, type: "integer" | "string" = "integer") => ({
  description,
  schema: { type },
  required: true as const,
});

const FRESHNESS = {
  "X-Indexed-Block": header("The block at which the answer is true: the newest that the index includes."),
  "X-Indexed-Block-Timestamp": header("When that block was made, in seconds since 1970."),
  "X-Finalized-Block": header(
    "The newest indexed block that is deep enough to be taken for final: by 30 to 240 blocks, depending on the network.",
  ),
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

/** What each may look like. */
const EXAMPLES = {
  "bad-parameter": new Problem(
    "bad-parameter",
    "to must be 0x and 40 hex digits. from is required (or its other name, vault).",
    {
      errors: [
        { parameter: "to", message: "must be 0x and 40 hex digits" },
        { parameter: "from", message: "is required (or its other name, vault)" },
      ],
    },
  ),
  "unknown-key": new Problem("unknown-key", "This API key is not known here. Leave out X-API-KEY to ask without one."),
  "rate-limited": new Problem(
    "rate-limited",
    "Without an API key, 25 requests in 10 s are answered. Ask again in 7 s.",
  ),
  "not-indexed": notIndexed(
    "Chain 1 (Ethereum) is still being indexed: its index has reached block 19000000 of 21000000.",
  ),
  "stale-index": new Problem(
    "stale-index",
    "Chain 1 (Ethereum) is indexed up to block 21000000 only, which is 900 s old; here at most 600 s are taken for current.",
  ),
  "database-unavailable": new Problem("database-unavailable", "The database cannot be reached. Try again in a moment."),
  overloaded: new Problem("overloaded", "The answer took too long to find. Try again in a moment."),
};

const problem = (description: string, names: readonly (keyof typeof EXAMPLES)[], headers = {}) => ({
  description,
  headers,
  content: {
    "application/problem+json": {
      schema: ProblemSchema,
      examples: Object.fromEntries(
        names.map((name) => [name, { value: JSON.parse(problemDocument(EXAMPLES[name]).body) }]),
      ),
    },
  },
});

/** On whatever is answered without a known key. */
const RATE_LIMIT = {
  "RateLimit-Policy": {
    description:
      'Without a key: how many requests (`q`) are answered in how many seconds (`w`), as in `"default";q=25;w=10`.',
    schema: { type: "string" as const },
  },
  RateLimit: {
    description:
      'Without a key: how many requests are left (`r`), and in how many seconds the next one is added (`t`), as in `"default";r=24;t=10`.',
    schema: { type: "string" as const },
  },
};

const RETRY_AFTER = { "Retry-After": header("Seconds to wait before asking again.") };

/** The responses of an operation that answers from the index. */
export const answers = (
  description: string,
  schema: z.ZodType,
  example: unknown,
  { headers = {}, takesKey = false } = {},
): RouteConfig["responses"] => ({
  200: {
    description,
    headers: { ...FRESHNESS, ...headers, ...RATE_LIMIT },
    content: { "application/json": { schema, example } },
  },
  400: problem("A parameter is bad: all that are, at once.", ["bad-parameter"], RATE_LIMIT),
  ...(takesKey && { 401: problem("The API key is misspelt, not known, or revoked.", ["unknown-key"], RATE_LIMIT) }),
  429: problem("Too many requests without an API key.", ["rate-limited"], { ...RATE_LIMIT, ...RETRY_AFTER }),
  503: problem(
    "The question cannot be answered now: the chain is not indexed yet or not up to date, or the database is out of reach.",
    ["not-indexed", "stale-index", "database-unavailable", "overloaded"],
    { ...RATE_LIMIT, ...RETRY_AFTER },
  ),
});

export const LINK = {
  Link: {
    description: 'With `limit`, where the list goes on: `<…>; rel="next"`. Absent on the last page.',
    schema: { type: "string" as const },
  },
};
