import type { HttpBindings } from "@hono/node-server";
import { createMiddleware } from "hono/factory";
import { overloaded } from "../database.ts";
import type { KeyDirectory } from "../keys/key-directory.ts";
import type { KeyUsage } from "../keys/key-usage.ts";
import { clientOf, type TrustedProxies } from "../limits/client-address.ts";
import type { Limiter } from "../limits/limiter.ts";
import { type Decision, type Limit, WindowFullError } from "../limits/sliding-window.ts";
import type { Metrics } from "../metrics.ts";
import { Problem } from "../problem.ts";

/** Who may ask how often. */
export type Admission = {
  keys: KeyDirectory;
  usage: KeyUsage;
  limiter: Limiter;
  trustedProxies: TrustedProxies | null;
  metrics: Metrics;
};

/** Lets requests with a known key through, and of all others as many as the limit allows. */
export const admit = ({ keys, usage, limiter, trustedProxies, metrics }: Admission) => {
  const { limit } = limiter;
  const policy = `"default";q=${limit.requests};w=${limit.windowMs / 1000}`;

  return createMiddleware<{ Bindings: HttpBindings }>(async (context, next) => {
    // v1 has no keys: there the header means nothing.
    const text = context.req.path.startsWith("/registry/v2/") && context.req.header("X-API-KEY");
    const key = text ? await keys.find(text) : null;
    if (key?.isKnown) {
      usage.count(key.id);
      metrics.keyed.inc();
      return next();
    }

    const { remoteAddress } = context.env.incoming.socket;
    const forwardedFor = trustedProxies ? context.req.header("X-Forwarded-For") : undefined;
    const client = clientOf(remoteAddress, forwardedFor, trustedProxies);
    const { isAdmitted, remaining, seconds } = await take(limiter, client);
    context.header("RateLimit-Policy", policy);
    context.header("RateLimit", `"default";r=${remaining};t=${seconds}`);
    if (!isAdmitted) {
      metrics.refused.inc();
      throw tooManyRequests(limit, seconds);
    }
    metrics.admitted.inc();
    // Counted like a request without a key.
    if (key) throw new Problem("unknown-key", key.reason);
    return next();
  });
};

const take = async ({ take }: Limiter, client: string): Promise<Omit<Decision, "resetMs"> & { seconds: number }> => {
  try {
    const { resetMs, ...decision } = await take(client);
    return { ...decision, seconds: Math.ceil(resetMs / 1000) };
  } catch (error) {
    if (!(error instanceof WindowFullError)) throw error;
    throw overloaded("More clients ask than can be told apart. Try again in a moment, or with an API key.");
  }
};

const tooManyRequests = ({ requests, windowMs }: Limit, seconds: number) =>
  new Problem(
    "rate-limited",
    `Without an API key, ${requests} requests in ${windowMs / 1000} s are answered. Ask again in ${seconds} s.`,
    { headers: { "Retry-After": String(seconds) } },
  );
