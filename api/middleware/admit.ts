import type { ApiContext, ApiMiddleware } from "../context.ts";
import type { KeyUsage } from "../keys/key-usage.ts";
import type { Limiter } from "../limits/shared-window.ts";
import { type Decision, type Limit, SlidingWindow } from "../limits/sliding-window.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { Problem } from "../problem.ts";
import { refuse, tooManyRequests } from "./refuse.ts";

type Admission = {
  usage: KeyUsage;
  limiter: Limiter;
  metrics: Pick<Metrics, "requests">;
  now?: (() => number) | undefined;
};

/** Paths with the rate limit of the contract. Every other path has a generous one. */
const IS_QUESTION = /^\/(registry|wallets|changes)(\/|$)/;
/** Requests to pages, documents and health: a page loads some ten files. More if the limit itself is higher. */
const PAGE_LIMIT = { requests: 500, windowMs: 10_000 };

/** Admits requests to every route: questions with a known API key or within the rate limit, others within their own. */
export const admit = ({ usage, limiter, metrics, now }: Admission): ApiMiddleware => {
  const { limit } = limiter;
  const policy = `"default";q=${limit.requests};w=${limit.windowMs / 1000}`;
  const pages = new SlidingWindow({ ...PAGE_LIMIT, requests: Math.max(PAGE_LIMIT.requests, limit.requests) }, now);

  const setRateLimit = (c: ApiContext, { remaining, resetMs }: Decision) =>
    c.set("rateLimit", {
      "RateLimit-Policy": policy,
      RateLimit: `"default";r=${remaining};t=${Math.ceil(resetMs / 1000)}`,
    });
  const tooManyQuestions = ({ resetMs }: Decision) => {
    metrics.requests.refused++;
    return tooManyRequests(resetMs, `The limit without an API key is ${describeLimit(limit)}.`);
  };
  const charge = async (c: ApiContext, client: string, count: number) => {
    // The request itself has been counted, and a retry counts again.
    if (count + 1 > limit.requests) throw tooManyAtOnce(limit, count + 1);
    if (count === 0) return;
    const decision = await limiter.take(client, count, count + 1);
    setRateLimit(c, decision);
    if (!decision.isAdmitted) throw tooManyQuestions(decision);
  };

  return async (c, next) => {
    const { client, key, keyProblem } = c.get("caller");
    // A preflight asks nothing yet.
    if (!IS_QUESTION.test(c.req.path) || c.req.method === "OPTIONS") {
      const { isAdmitted, resetMs } = pages.take(client);
      return isAdmitted ? next() : refuse(tooManyToPages(pages.limit, resetMs));
    }
    if (key) {
      usage.count(key.id);
      metrics.requests.keyed++;
      c.set("charge", async (count) => usage.count(key.id, count));
      return next();
    }
    const decision = await limiter.take(client);
    setRateLimit(c, decision);
    if (!decision.isAdmitted) return refuse(tooManyQuestions(decision));
    metrics.requests.admitted++;
    // An unknown key counts like a request without one.
    if (keyProblem !== undefined) throw new Problem("unknown-key", keyProblem);
    c.set("charge", (count) => charge(c, client, count));
    return next();
  };
};

/** Applies the rate limit to the developer page, counted apart from questions. */
export const admitToDeveloperPage =
  (limiter: Limiter): ApiMiddleware =>
  async (c, next) => {
    const { isAdmitted, resetMs } = await limiter.take(`developers ${c.get("caller").client}`);
    if (!isAdmitted) throw tooManyToPages(limiter.limit, resetMs);
    await next();
  };

const describeLimit = ({ requests, windowMs }: Limit) => `${requests} requests in ${windowMs / 1000} s`;

const tooManyToPages = (limit: Limit, resetMs: number) =>
  tooManyRequests(resetMs, `An address may send ${describeLimit(limit)} to pages like this.`);

const tooManyAtOnce = (limit: Limit, count: number) =>
  new Problem(
    "rate-limited",
    `This request counts as ${count}. The limit without an API key is ${describeLimit(limit)}.`,
    { headers: { "Retry-After": String(limit.windowMs / 1000) } },
  );
