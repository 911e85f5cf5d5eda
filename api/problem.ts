/** Every way in which a request can fail. A problem's `type` ends in its name: /docs#problem-<name> explains it. */
export const PROBLEMS = {
  "bad-parameter": { status: 400, title: "Bad parameter" },
  /** 503 while no node proves the answer. */
  "proof-unavailable": { status: 400, title: "No proof" },
  "bad-request": { status: 400, title: "Malformed request" },
  "unknown-key": { status: 401, title: "Unknown API key" },
  "not-signed-in": { status: 401, title: "Not signed in" },
  "sign-in-refused": { status: 403, title: "Sign-in refused" },
  "account-blocked": { status: 403, title: "Account blocked" },
  "cross-site": { status: 403, title: "Cross-site request" },
  "not-found": { status: 404, title: "Not found" },
  "method-not-allowed": { status: 405, title: "Method not allowed" },
  "request-timeout": { status: 408, title: "Request timeout" },
  "too-many-keys": { status: 409, title: "Too many API keys" },
  "too-many-webhooks": { status: 409, title: "Too many webhooks" },
  "webhook-paused": { status: 409, title: "Webhook paused" },
  "body-too-large": { status: 413, title: "Body too large" },
  "url-too-long": { status: 414, title: "URL too long" },
  "unsupported-body": { status: 415, title: "Body is not JSON" },
  "rate-limited": { status: 429, title: "Too many requests" },
  "headers-too-large": { status: 431, title: "Headers too large" },
  "internal-error": { status: 500, title: "Unexpected error" },
  "not-indexed": { status: 503, title: "Not indexed yet" },
  "index-differs": { status: 503, title: "Index differs from the registry" },
  "stale-index": { status: 503, title: "Index behind its chain" },
  "database-unavailable": { status: 503, title: "Database unavailable" },
  "network-unavailable": { status: 503, title: "Network unavailable" },
  overloaded: { status: 503, title: "Overloaded" },
} as const;

export type ProblemName = keyof typeof PROBLEMS;

export type ParameterError = { parameter: string; message: string };

type Extras = {
  headers?: Record<string, string>;
  /** Instead of the problem's own. */
  status?: number;
  /** For a 400: every bad parameter. */
  errors?: readonly ParameterError[];
};

/**
 * The failure of a request: thrown anywhere, turned into a response by `app.onError`. It has no stack trace, which
 * would cost more than the response: the fault is in the request or in a dependency, not in the code.
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

/** Creates the parts of a response with a problem document (RFC 9457). */
export const problemDocument = ({ problem, message, extras }: Problem) => {
  const { status: ownStatus, title } = PROBLEMS[problem];
  const status = extras.status ?? ownStatus;
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

export const malformedRequest = (headers: Record<string, string> = {}) =>
  new Problem("bad-request", "The request is not valid HTTP.", { headers });

const METHODS = ["GET", "HEAD", "OPTIONS"];

export const methodNotAllowed = (methods: readonly string[] = METHODS, headers: Record<string, string> = {}) =>
  new Problem("method-not-allowed", `Allowed methods: ${methods.join(", ")}.`, {
    headers: { ...headers, Allow: methods.join(", ") },
  });

/** The index of a chain cannot answer yet: neither `false` nor `[]` would be true. */
export const notIndexed = (detail: string) =>
  new Problem("not-indexed", detail, { headers: { "Retry-After": String(INDEX_RETRY_SECONDS) } });

/** `Retry-After` for a chain that is not indexed or not up to date. */
export const INDEX_RETRY_SECONDS = 10;
