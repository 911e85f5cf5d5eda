/** Outcome of a request to this service. */
export type FetchResult<Value> =
  | { kind: "ok"; value: Value; headers: Headers }
  /** No response: the service or the connection is down. */
  | { kind: "unreachable" }
  /** Too many requests from this address. The next one may follow after `seconds`. */
  | { kind: "rate-limited"; seconds: number; detail: string }
  /** The service cannot answer correctly now; `problem` is the name of the problem type. */
  | { kind: "unavailable"; problem: string; seconds: number; detail: string }
  | { kind: "bad-request"; detail: string; errors: readonly { parameter: string; message: string }[] }
  | { kind: "failed"; status: number; title: string; detail: string };

export type FetchFailure = Exclude<FetchResult<unknown>, { kind: "ok" }>;

type ProblemDocument = {
  type?: string;
  title?: string;
  detail?: string;
  errors?: { parameter: string; message: string }[];
};

type FetchOptions = {
  method?: "GET" | "POST" | "DELETE";
  /** Sent as JSON. */
  body?: unknown;
  signal?: AbortSignal | null;
};

/**
 * Fetches JSON from this service. Never throws: failures are results of another kind. Large numbers must arrive as
 * strings, as with `numbers=string`, because JavaScript would round them.
 */
export const fetchJson = async <Value>(
  path: string,
  { method = "GET", body, signal = null }: FetchOptions = {},
): Promise<FetchResult<Value>> => {
  const options = {
    method,
    cache: "no-store" as const,
    signal,
    ...(body !== undefined && { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }),
  };
  try {
    const response = await fetch(path, options);
    const { ok, status, headers } = response;
    if (ok) return { kind: "ok", value: (status === 204 ? undefined : await response.json()) as Value, headers };
    const seconds = Number(headers.get("Retry-After") ?? 1);
    return readProblem(status, seconds, (await response.json().catch(() => ({}))) as ProblemDocument);
  } catch {
    return { kind: "unreachable" };
  }
};

/** @param seconds - after which the service may be asked again */
export const readProblem = (status: number, seconds: number, problem: ProblemDocument): FetchFailure => {
  const { type = "", title = "", detail = "", errors = [] } = problem;
  if (status === 429) return { kind: "rate-limited", seconds, detail };
  // From a proxy in front of the service, whose body is not a problem document.
  if (status === 502 || status === 504) return { kind: "unreachable" };
  if (status === 503) return { kind: "unavailable", problem: type.replace(/^.*#problem-/, ""), seconds, detail };
  if (status === 400) return { kind: "bad-request", detail, errors };
  return { kind: "failed", status, title: title || "Something went wrong", detail };
};

/** Describes a failure in one line. */
export const describeFailure = (failure: FetchFailure): string => {
  if (failure.kind === "unreachable") return "The service cannot be reached. Try again when your connection is back.";
  return failure.detail || "Something went wrong. Try again.";
};
