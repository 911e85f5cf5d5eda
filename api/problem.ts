/** What can go wrong with a request. The name is the end of the problem's `type`: /docs#problem-<name> tells more. */
export const PROBLEMS = {
  "bad-parameter": { status: 400, title: "Bad parameter" },
  "bad-request": { status: 400, title: "Not an HTTP request" },
  "unknown-key": { status: 401, title: "Unknown API key" },
  "not-signed-in": { status: 401, title: "Not signed in" },
  "sign-in-refused": { status: 403, title: "Sign-in refused" },
  "cross-site": { status: 403, title: "Asked by another site" },
  "not-found": { status: 404, title: "Nothing here" },
  "method-not-allowed": { status: 405, title: "Method not allowed" },
  "request-timeout": { status: 408, title: "Request too slow" },
  "too-many-keys": { status: 409, title: "Too many API keys" },
  "body-too-large": { status: 413, title: "Body too large" },
  "url-too-long": { status: 414, title: "URL too long" },
  "unsupported-body": { status: 415, title: "Body that is not JSON" },
  "rate-limited": { status: 429, title: "Too many requests" },
  "headers-too-large": { status: 431, title: "Headers too large" },
  "internal-error": { status: 500, title: "Unexpected error" },
  "not-indexed": { status: 503, title: "Not indexed yet" },
  "stale-index": { status: 503, title: "Index behind its chain" },
  "database-unavailable": { status: 503, title: "Database unavailable" },
  "network-unavailable": { status: 503, title: "Network unavailable" },
  overloaded: { status: 503, title: "Overloaded" },
} as const;

export type ProblemName = keyof typeof PROBLEMS;

export type ParameterError = { parameter: string; message: string };

type Extras = {
  headers?: Record<string, string>;
  /** For a 400: every parameter that is bad. */
  errors?: readonly ParameterError[];
};

/**
 * The one error that a request can end with: thrown anywhere, answered in one place. It says what is wrong
 * with a request or a part of the service, not with the code: it has no stack trace, which would cost more
 * than the answer.
 */
export class Problem extends Error {
  override name = "Problem";
  readonly problem: ProblemName;
  readonly extras: Extras;

  constructor(problem: ProblemName, detail: string, extras: Extras = {}) {
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(detail);
    Error.stackTraceLimit = stackTraceLimit;
    this.problem = problem;
    this.extras = extras;
  }
}

/** A problem document (RFC 9457) and the headers that go with it. */
export const problemDocument = ({ problem, message, extras }: Problem) => {
  const { status, title } = PROBLEMS[problem];
  const body = {
    type: `/docs#problem-${problem}`,
    title,
    status,
    detail: message,
    ...(extras.errors && { errors: extras.errors }),
  };
  const headers = {
    "Content-Type": "application/problem+json",
    "Cache-Control": "no-store",
    ...extras.headers,
  };
  return { status, headers, body: JSON.stringify(body) };
};

/** What was sent is no request that HTTP knows. */
export const notHttp = (headers: Record<string, string> = {}) =>
  new Problem("bad-request", "This request cannot be read.", { headers });

const METHODS = ["GET", "HEAD", "OPTIONS"];

/** What is said to a method that a route does not have. */
export const methodNotAllowed = (methods: readonly string[] = METHODS, headers: Record<string, string> = {}) =>
  new Problem("method-not-allowed", `This service only answers ${methods.join(", ")}.`, {
    headers: { ...headers, Allow: methods.join(", ") },
  });

/** Nothing is known of a chain, yet: that is neither `false` nor `[]`. */
export const notIndexed = (detail: string) =>
  new Problem("not-indexed", detail, { headers: { "Retry-After": String(INDEXING_SECONDS) } });

/** When to ask again about a chain that is not indexed, or not up to date. */
export const INDEXING_SECONDS = 10;
