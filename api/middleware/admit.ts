import type { Socket } from "node:net";
import type { ApiContext, ApiMiddleware } from "../context.ts";
import { overloaded } from "../database.ts";
import type { KeyDirectory } from "../keys/key-directory.ts";
import type { KeyUsage } from "../keys/key-usage.ts";
import { clientOf, type TrustedProxies } from "../limits/client-address.ts";
import type { Limiter } from "../limits/limiter.ts";
import { type Decision, type Limit, WindowFullError } from "../limits/sliding-window.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { Problem, problemDocument } from "../problem.ts";
import { respond } from "../respond.ts";

/** Who may ask how often. */
export type Admission = {
  keys: KeyDirectory;
  usage: KeyUsage;
  limiter: Limiter;
  trustedProxies: TrustedProxies | null;
  metrics: Metrics;
};

/** Lets requests with a known key through, and of all others as many as the limit allows. */
export const admit = ({ keys, usage, limiter, trustedProxies, metrics }: Admission): ApiMiddleware => {
  const { limit } = limiter;
  const policy = `"default";q=${limit.requests};w=${limit.windowMs / 1000}`;
  const findClient = clientFinder(trustedProxies);
  /** There are no more of them than a window has seconds. */
  const refusals = new Map<number, ReturnType<typeof problemDocument>>();
  const refusal = (seconds: number) => {
    const document = refusals.get(seconds) ?? problemDocument(tooManyRequests(limit, seconds));
    refusals.set(seconds, document);
    return document;
  };

  return async (c, next) => {
    // v1 has no keys: there the header means nothing.
    const text = c.req.path.startsWith("/registry/v2/") ? c.req.header("X-API-KEY") : undefined;
    const key = text ? await keys.find(text, c.env.incoming.socket) : null;
    if (key?.isKnown) {
      usage.count(key.id);
      metrics.requests.keyed++;
      return next();
    }
    const { isAdmitted, remaining, resetMs } = await take(limiter, findClient(c));
    const seconds = Math.ceil(resetMs / 1000);
    c.set("rateLimit", { "RateLimit-Policy": policy, RateLimit: `"default";r=${remaining};t=${seconds}` });
    if (!isAdmitted) {
      metrics.requests.refused++;
      const { status, body, headers } = refusal(seconds);
      return respond(c, status, body, headers);
    }
    metrics.requests.admitted++;
    // Counted like a request without a key.
    if (key) throw new Problem("unknown-key", key.reason);
    return next();
  };
};

/** Limits what is no question about delegations: as often, but counted apart from those. */
export const admitToPortal = ({
  limiter,
  trustedProxies,
}: Pick<Admission, "limiter" | "trustedProxies">): ApiMiddleware => {
  const { requests, windowMs } = limiter.limit;
  const findClient = clientFinder(trustedProxies);
  return async (c, next) => {
    const { isAdmitted, resetMs } = await take(limiter, `portal ${findClient(c)}`);
    if (!isAdmitted) {
      const seconds = Math.ceil(resetMs / 1000);
      const detail = `From one address, ${requests} requests in ${windowMs / 1000} s are answered here. Try again in ${seconds} s.`;
      throw new Problem("rate-limited", detail, { headers: { "Retry-After": String(seconds) } });
    }
    await next();
  };
};

/** Finds out which client asks: without proxies, once for each connection. */
const clientFinder = (trustedProxies: TrustedProxies | null) => {
  const clients = new WeakMap<Socket, string>();
  return (c: ApiContext): string => {
    const { socket } = c.env.incoming;
    if (trustedProxies) return clientOf(socket.remoteAddress, c.req.header("X-Forwarded-For") ?? "", trustedProxies);
    let client = clients.get(socket);
    if (client === undefined) {
      client = clientOf(socket.remoteAddress, undefined, null);
      clients.set(socket, client);
    }
    return client;
  };
};

const take = async (limiter: Limiter, client: string): Promise<Decision> => {
  try {
    return await limiter.take(client);
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
