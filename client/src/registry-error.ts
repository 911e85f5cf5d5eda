import type { components } from "./openapi.ts";

/** A problem document of the service. */
export type Problem = components["schemas"]["Problem"];

/** Whatever is not an answer. It never means "no". */
export class RegistryError extends Error {
  override readonly name = "RegistryError";
  /** The status of the response; null without one. */
  readonly status: number | null;
  /** What the service says; null if it says nothing, as behind a proxy or without a response. */
  readonly problem: Problem | null;
  /** True if the same question may be answered later. */
  readonly isRetryable: boolean;
  /** How long the service asks to wait, in milliseconds. */
  readonly retryAfterMs: number;

  constructor(
    message: string,
    {
      status = null,
      problem = null,
      isRetryable = isTemporary(status),
      retryAfterMs = 0,
      cause,
    }: RegistryErrorOptions = {},
  ) {
    super(message, { cause });
    this.status = status;
    this.problem = problem;
    this.isRetryable = isRetryable;
    this.retryAfterMs = retryAfterMs;
  }
}

type RegistryErrorOptions = {
  status?: number | null;
  problem?: Problem | null;
  isRetryable?: boolean;
  retryAfterMs?: number;
  cause?: unknown;
};

const isTemporary = (status: number | null): boolean =>
  status === null || status === 408 || status === 429 || status >= 500;

/** Of another server, or another version of the service. */
export const notAnAnswer = (json: unknown): RegistryError =>
  new RegistryError(`This is not an answer of the service: ${JSON.stringify(json)?.slice(0, 100)}`, {
    status: 200,
    isRetryable: false,
  });

export const fromProblem = (problem: Problem, options: RegistryErrorOptions = {}): RegistryError =>
  new RegistryError(problem.detail, { status: problem.status, problem, ...options });
