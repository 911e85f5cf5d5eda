import type { Socket } from "node:net";
import type { ApiContext, ApiMiddleware } from "../context.ts";
import { overloaded } from "../database/problems.ts";
import { BoundedLookup } from "../keys/bounded-lookup.ts";
import type { KeyDirectory } from "../keys/key-directory.ts";
import type { KeyUsage } from "../keys/key-usage.ts";
import { identifyClient, type TrustedProxies } from "../limits/client-address.ts";
import type { Limiter } from "../limits/limiter.ts";
import { type Decision, type Limit, WindowFullError } from "../limits/sliding-window.ts";
import { Turns } from "../limits/turns.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { Problem, problemDocument } from "../problem.ts";
import { respond } from "../respond.ts";

export type Admission = {
  keys: KeyDirectory;
  usage: KeyUsage;
  limiter: Limiter;
  trustedProxies: TrustedProxies | null;
  metrics: Metrics;
};

/** Paths with the rate limit of the contract. Every other path has a generous one. */
const IS_QUESTION = /^\/(registry|wallets)(\/|$)/;
/** Paths on which an API key counts. */
const TAKES_KEY = /^\/(registry\/(v2\/|checks)|wallets\/)/;

/** Refusals of one client in one turn of the event loop. A flood of them would leave others little time. */
const MAX_REFUSALS = 2;

const createRefusalTurns = () =>
  new Turns({
    places: 64,
    maxWaiting: 500,
    maxWaitMs: 1_000,
    refuse: () => new Error("Too many refusals wait."),
  });

/** Waits for the client's turn. Beyond a number of waiting refusals, each is sent at once. */
const waitToRefuse = async (refusals: Turns, client: string): Promise<void> => {
  try {
    setImmediate(await refusals.take(client, MAX_REFUSALS));
  } catch {}
};

/** Admits requests to every route: questions with a known API key or within the rate limit, others within their own. */
export const admit = ({ keys, usage, limiter, trustedProxies, metrics }: Admission): ApiMiddleware => {
  const { limit } = limiter;
  const policy = `"default";q=${limit.requests};w=${limit.windowMs / 1000}`;
  const findClient = createClientFinder(trustedProxies);
  /** By seconds to wait: at most one per second of the window. */
  const rejections = new Map<number, ReturnType<typeof problemDocument>>();
  const rejectionFor = (seconds: number) => {
    const document = rejections.get(seconds) ?? problemDocument(tooManyRequests(limit, seconds));
    rejections.set(seconds, document);
    return document;
  };

  const take = (client: string) => orOverloaded(() => limiter.take(client));
  const rateLimitOf = ({ remaining, resetMs }: Decision) => ({
    "RateLimit-Policy": policy,
    RateLimit: `"default";r=${remaining};t=${Math.ceil(resetMs / 1000)}`,
  });
  const charge = async (c: ApiContext, client: string, count: number) => {
    // The request itself has been counted, and a retry counts again.
    if (count + 1 > limit.requests) throw tooManyAtOnce(limit);
    if (count === 0) return;
    const decision = await orOverloaded(() => limiter.take(client, count, count + 1));
    c.set("rateLimit", rateLimitOf(decision));
    if (decision.isAdmitted) return;
    metrics.requests.refused++;
    throw tooManyRequests(limit, Math.ceil(decision.resetMs / 1000));
  };
  const lookup = new BoundedLookup({ keys, take });
  const refusals = createRefusalTurns();

  const admitToPages: ApiMiddleware = async (c, next) => {
    const client = findClient(c);
    const { isAdmitted, resetMs } = await orOverloaded(() => limiter.takePage(client));
    if (!isAdmitted) {
      await waitToRefuse(refusals, client);
      throw tooManyToPages(limiter.pageLimit, Math.ceil(resetMs / 1000));
    }
    c.set("caller", { name: client, client, owner: null, asks: false });
    return next();
  };

  return async (c, next) => {
    const { path, method } = c.req;
    // A preflight asks nothing yet.
    if (!IS_QUESTION.test(path) || method === "OPTIONS") return admitToPages(c, next);
    // v1 has no keys, and ignores the header.
    const text = TAKES_KEY.test(path) ? c.req.header("X-API-KEY") : undefined;
    const { socket } = c.env.incoming;
    const client = findClient(c);
    const cached = text ? keys.findCached(text, socket) : undefined;
    const { key, decision } = text && !cached ? await lookup.find(text, client, socket) : { key: cached };
    if (key?.isKnown) {
      usage.count(key.id);
      metrics.requests.keyed++;
      const name = `key ${key.id}`;
      c.set("caller", { name, client, owner: key.owner ?? name, asks: true });
      c.set("charge", async (count) => usage.count(key.id, count));
      return next();
    }
    const taken = decision ?? (await take(client));
    c.set("rateLimit", rateLimitOf(taken));
    if (!taken.isAdmitted) {
      metrics.requests.refused++;
      await waitToRefuse(refusals, client);
      const { status, body, headers } = rejectionFor(Math.ceil(taken.resetMs / 1000));
      return respond(c, status, body, headers);
    }
    metrics.requests.admitted++;
    // An unknown key counts like a request without one.
    if (key) throw new Problem("unknown-key", key.reason);
    c.set("caller", { name: client, client, owner: null, asks: true });
    c.set("charge", (count) => charge(c, client, count));
    return next();
  };
};

/** Applies the rate limit to the developer page, counted apart from requests to /registry and /wallets. */
export const admitToDeveloperPage =
  (limiter: Limiter): ApiMiddleware =>
  async (c, next) => {
    const { isAdmitted, resetMs } = await orOverloaded(() => limiter.take(`developers ${c.get("caller").client}`));
    if (!isAdmitted) throw tooManyToPages(limiter.limit, Math.ceil(resetMs / 1000));
    await next();
  };

/** Identifies the client of a request: without proxies, once per connection. */
const createClientFinder = (trustedProxies: TrustedProxies | null) => {
  const clients = new WeakMap<Socket, string>();
  return (c: ApiContext): string => {
    const { socket } = c.env.incoming;
    if (trustedProxies) {
      return identifyClient(socket.remoteAddress, c.req.header("X-Forwarded-For") ?? "", trustedProxies);
    }
    let client = clients.get(socket);
    if (client === undefined) {
      client = identifyClient(socket.remoteAddress, undefined, null);
      clients.set(socket, client);
    }
    return client;
  };
};

const orOverloaded = async (take: () => Decision | Promise<Decision>): Promise<Decision> => {
  try {
    return await take();
  } catch (error) {
    if (!(error instanceof WindowFullError)) throw error;
    throw overloaded("Too many clients for the rate limit to count. Try again in a moment, or with an API key.");
  }
};

const tooManyAtOnce = ({ requests, windowMs }: Limit) =>
  new Problem("rate-limited", `Without an API key, a body may have at most ${requests} checks: each is one request.`, {
    headers: { "Retry-After": String(windowMs / 1000) },
  });

const tooManyToPages = ({ requests, windowMs }: Limit, seconds: number) =>
  new Problem(
    "rate-limited",
    `An address may send ${requests} requests in ${windowMs / 1000} s to pages like this. Try again in ${seconds} s.`,
    { headers: { "Retry-After": String(seconds) } },
  );

const tooManyRequests = ({ requests, windowMs }: Limit, seconds: number) =>
  new Problem(
    "rate-limited",
    `The limit without an API key is ${requests} requests in ${windowMs / 1000} s. Try again in ${seconds} s.`,
    { headers: { "Retry-After": String(seconds) } },
  );
