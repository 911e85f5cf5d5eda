/** What became of a question to the service. */
export type Answer<Value> =
  | { kind: "answered"; value: Value; headers: Headers }
  /** Nothing came back: the service is away, or the connection is. */
  | { kind: "unreachable" }
  /** Too many questions from here. The next one is answered after so many seconds. */
  | { kind: "rate-limited"; seconds: number; detail: string }
  /** True answers cannot be given now: see the problem's name. */
  | { kind: "unavailable"; problem: string; seconds: number; detail: string }
  /** The question is not one. */
  | { kind: "bad-request"; detail: string; errors: readonly { parameter: string; message: string }[] }
  | { kind: "failed"; status: number; title: string; detail: string };

export type Failure = Exclude<Answer<unknown>, { kind: "answered" }>;

type ProblemDocument = {
  type?: string;
  title?: string;
  detail?: string;
  errors?: { parameter: string; message: string }[];
};

type Options = {
  method?: "GET" | "POST" | "DELETE";
  /** Sent as JSON. */
  body?: unknown;
  signal?: AbortSignal | undefined;
};

/**
 * Asks this service for JSON. Never throws: whatever goes wrong is an answer of another kind. Numbers that may be
 * large must come as texts, as with `numbers=string`: JavaScript would round them.
 */
export const ask = async <Value>(
  path: string,
  { method = "GET", body, signal }: Options = {},
): Promise<Answer<Value>> => {
  const sent =
    body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  try {
    const response = await fetch(path, { method, cache: "no-store", signal: signal ?? null, ...sent });
    const { ok, status, headers } = response;
    if (ok) return { kind: "answered", value: status === 204 ? undefined : await response.json(), headers };
    return readProblem(status, headers, await response.json().catch(() => ({})));
  } catch {
    return { kind: "unreachable" };
  }
};

const readProblem = (status: number, headers: Headers, problem: ProblemDocument): Failure => {
  const { type = "", title = "", detail = "", errors = [] } = problem;
  const seconds = Number(headers.get("Retry-After") ?? 1);
  if (status === 429) return { kind: "rate-limited", seconds, detail };
  // Whatever stands before the service says so in its own words.
  if (status === 502 || status === 504) return { kind: "unreachable" };
  if (status === 503) return { kind: "unavailable", problem: type.replace(/^.*#problem-/, ""), seconds, detail };
  if (status === 400) return { kind: "bad-request", detail, errors };
  return { kind: "failed", status, title: title || "Something went wrong", detail };
};
