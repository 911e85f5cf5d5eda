import { type RouteConfig, z } from "@hono/zod-openapi";
import { notIndexed, Problem, problemDocument } from "../problem.ts";

// Responses in the OpenAPI document.

/** Accepts requests with or without an API key, which openapi.ts describes. */
export const OPTIONAL_KEY: NonNullable<RouteConfig["security"]> = [{}, { apiKey: [] }];

const header = (description: string, type: "integer" | "string" = "integer") => ({
  description,
  schema: { type },
  required: true as const,
});

const FRESHNESS = {
  "X-Indexed-Block": header(
    "The newest indexed block. The answer holds at this block, unless the request names another one.",
  ),
  "X-Indexed-Block-Timestamp": header("The timestamp of that block, in seconds since 1970."),
  "X-Finalized-Block": header(
    "The newest indexed block that the service treats as final: 30 to 240 blocks deep, depending on the network.",
  ),
};

/** Of an answer to a request with a block. */
const ANSWERED_BLOCK = {
  "X-Answered-Block": {
    description: "With `block` or `minBlock`: the block at which the answer holds.",
    schema: { type: "integer" as const },
  },
  "X-Answered-Block-Final": {
    description: "With `block` or `minBlock`: `true` if the service treats that block as final, otherwise `false`.",
    schema: { type: "boolean" as const },
  },
};

export const ProblemSchema = z
  .object({
    type: z.string().openapi({ description: "The kind of problem, as a link to its explanation." }),
    title: z.string(),
    status: z.int(),
    detail: z.string().openapi({ description: "The cause in this request, and what to do." }),
    errors: z
      .array(z.object({ parameter: z.string(), message: z.string() }))
      .optional()
      .openapi({ description: "For a 400: every bad parameter." }),
  })
  .openapi("Problem", { description: "A problem document, RFC 9457." });

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
  "proof-unavailable": new Problem(
    "proof-unavailable",
    "There are no proofs for Chain 1 (Ethereum): the operator has set no node for proofs of it.",
  ),
  "unknown-key": new Problem("unknown-key", "This API key is unknown. Leave out X-API-KEY to use the API without one."),
  "request-timeout": new Problem("request-timeout", "The body did not arrive within 5 s."),
  "body-too-large": new Problem("body-too-large", "A body may have at most 1,000,000 bytes."),
  "unsupported-body": new Problem("unsupported-body", "The body must be JSON, with Content-Type: application/json."),
  "rate-limited": new Problem("rate-limited", "The limit without an API key is 25 requests in 10 s. Try again in 7 s."),
  "not-indexed": notIndexed(
    "Chain 1 (Ethereum) is still being indexed: its index has reached block 19000000 of 21000000.",
  ),
  "index-differs": new Problem(
    "index-differs",
    "The index of chain 1 (Ethereum) differs from the registries, and is being repaired.",
  ),
  "stale-index": new Problem(
    "stale-index",
    "Chain 1 (Ethereum) is indexed up to block 21000000, which is 900 s old; the limit is 600 s.",
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

/** Headers of every response to a request without a known API key. */
const RATE_LIMIT = {
  "RateLimit-Policy": {
    description:
      'Without a key: the number of requests (`q`) allowed in a number of seconds (`w`), as in `"default";q=25;w=10`.',
    schema: { type: "string" as const },
  },
  RateLimit: {
    description:
      'Without a key: the requests left (`r`), and the seconds until there is one more (`t`), as in `"default";r=24;t=10`.',
    schema: { type: "string" as const },
  },
};

const RETRY_AFTER = { "Retry-After": header("Seconds to wait before trying again.") };

/** The problem of every route that is not a question: each address has a generous limit of its own there. */
export const TOO_MANY_TO_PAGES: RouteConfig["responses"] = {
  429: problem("Too many requests from this address.", ["rate-limited"], RETRY_AFTER),
};

/** The problem of a block or time where none is taken. */
export const BAD_MOMENT: RouteConfig["responses"] = {
  400: problem("The request names a block or a time, but the answer is for now.", ["bad-parameter"]),
};

/** Describes the responses of an operation that answers from the index with headers for its block. */
export const describeAnswers = (
  description: string,
  schema: z.ZodType,
  example: unknown,
  { headers = {}, takesKey = false, hasProofs = false } = {},
): RouteConfig["responses"] => ({
  200: {
    description,
    headers: { ...FRESHNESS, ...ANSWERED_BLOCK, ...headers, ...RATE_LIMIT },
    content: { "application/json": { schema, example } },
  },
  ...describeProblems(takesKey, hasProofs),
});

/** Describes the responses of an operation that answers about several networks, in pages. */
export const describePages = (description: string, schema: z.ZodType, example: unknown): RouteConfig["responses"] => ({
  200: {
    description,
    headers: { ...LINK, ...RATE_LIMIT },
    content: { "application/json": { schema, example } },
  },
  ...describeProblems(true),
});

/** Describes the responses of the operation that answers with a page of changes, or with a stream of them. */
export const describeChanges = (schema: z.ZodType, example: unknown, stream: string): RouteConfig["responses"] => ({
  200: {
    description: "A page of changes; with `Accept: text/event-stream`, a stream of them.",
    headers: RATE_LIMIT,
    content: {
      "application/json": { schema, example },
      "text/event-stream": { schema: z.string(), example: stream },
    },
  },
  ...describeProblems(true),
});

/** Describes the responses of the operation that answers many checks. */
export const describeBulkAnswers = (
  description: string,
  schema: z.ZodType,
  example: unknown,
): RouteConfig["responses"] => ({
  200: { description, headers: RATE_LIMIT, content: { "application/json": { schema, example } } },
  ...describeProblems(true),
  408: problem("The body did not arrive in time.", ["request-timeout"], RATE_LIMIT),
  413: problem("The body is too large.", ["body-too-large"], RATE_LIMIT),
  415: problem("The body is not JSON.", ["unsupported-body"], RATE_LIMIT),
});

const describeProblems = (takesKey: boolean, hasProofs = false): RouteConfig["responses"] => ({
  400: problem(
    "A parameter is bad. `errors` names every bad one.",
    ["bad-parameter", ...(hasProofs ? (["proof-unavailable"] as const) : [])],
    RATE_LIMIT,
  ),
  ...(takesKey && { 401: problem("The API key is misspelt, unknown or revoked.", ["unknown-key"], RATE_LIMIT) }),
  429: problem("Too many requests without an API key.", ["rate-limited"], { ...RATE_LIMIT, ...RETRY_AFTER }),
  503: problem(
    "No answer at the moment: the chain is not indexed yet or not up to date, or the database is out of reach.",
    ["not-indexed", "index-differs", "stale-index", "database-unavailable", "overloaded"],
    { ...RATE_LIMIT, ...RETRY_AFTER },
  ),
});

export const LINK = {
  Link: {
    description: 'With `limit`, the next page: `<…>; rel="next"`. Absent on the last page.',
    schema: { type: "string" as const },
  },
};
