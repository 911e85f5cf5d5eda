import type { Socket } from "node:net";
import { overloaded } from "../database.ts";
import { type Exchange, headerLines, type Middleware, type Reply, respond, UNKNOWN_ROUTE } from "../exchange.ts";
import type { Key, KeyDirectory } from "../keys/key-directory.ts";
import type { KeyUsage } from "../keys/key-usage.ts";
import { clientOf, type TrustedProxies } from "../limits/client-address.ts";
import type { Limiter } from "../limits/limiter.ts";
import { type Decision, type Limit, WindowFullError } from "../limits/sliding-window.ts";
import type { Metrics } from "../metrics/metrics.ts";
import { Problem, problemDocument } from "../problem.ts";

/** Who may ask how often. */
export type Admission = {
  keys: KeyDirectory;
  usage: KeyUsage;
  limiter: Limiter;
  trustedProxies: TrustedProxies | null;
  metrics: Metrics;
};

/** Lets requests with a known key through, and of all others as many as the limit allows. */
export const admit = ({ keys, usage, limiter, trustedProxies, metrics }: Admission): Middleware => {
  const { limit } = limiter;
  const policy = headerLines({ "RateLimit-Policy": `"default";q=${limit.requests};w=${limit.windowMs / 1000}` });
  const refusal = once((seconds: number) => {
    const { headers, ...problem } = problemDocument(tooManyRequests(limit, seconds));
    return { ...problem, headers: headerLines(headers) };
  });
  const findClient = clientFinder(trustedProxies);

  return (next) => {
    const admitByKey = (exchange: Exchange, key: Key): Reply | Promise<Reply> => {
      if (!key.isKnown) return admitByAddress(exchange, key);
      usage.count(key.id);
      metrics.requests.keyed++;
      return next(exchange);
    };
    const admitByAddress = (exchange: Exchange, key: Key | null): Reply | Promise<Reply> => {
      const decision = take(limiter, findClient(exchange));
      if (decision instanceof Promise) return decision.then((made) => decide(exchange, key, made));
      return decide(exchange, key, decision);
    };
    const decide = (
      exchange: Exchange,
      key: Key | null,
      { isAdmitted, remaining, resetMs }: Decision,
    ): Reply | Promise<Reply> => {
      const seconds = Math.ceil(resetMs / 1000);
      exchange.rateLimit = `${policy}RateLimit: "default";r=${remaining};t=${seconds}\r\n`;
      if (!isAdmitted) {
        metrics.requests.refused++;
        const { status, body, headers } = refusal(seconds);
        return respond(exchange, status, body, headers);
      }
      metrics.requests.admitted++;
      // Counted like a request without a key.
      if (key && !key.isKnown) throw new Problem("unknown-key", key.reason);
      return next(exchange);
    };

    return (exchange) => {
      // v1 has no keys: there the header means nothing.
      const text = exchange.incoming.headers["x-api-key"];
      if (!text || !takesKey(exchange)) return admitByAddress(exchange, null);
      const key = keys.find(String(text), exchange.incoming.socket);
      return key instanceof Promise ? key.then((found) => admitByKey(exchange, found)) : admitByKey(exchange, key);
    };
  };
};

const takesKey = ({ route, path }: Exchange): boolean =>
  (route === UNKNOWN_ROUTE ? path : route).startsWith("/registry/v2/");

/** Limits what is no question about delegations: as often, but counted apart from those. */
export const admitToPortal = ({
  limiter,
  trustedProxies,
}: Pick<Admission, "limiter" | "trustedProxies">): Middleware => {
  const { limit } = limiter;
  const findClient = clientFinder(trustedProxies);
  const decide = ({ isAdmitted, resetMs }: Decision): void => {
    if (isAdmitted) return;
    const seconds = Math.ceil(resetMs / 1000);
    const detail = `From one address, ${limit.requests} requests in ${limit.windowMs / 1000} s are answered here. Try again in ${seconds} s.`;
    throw new Problem("rate-limited", detail, { headers: { "Retry-After": String(seconds) } });
  };
  return (next) => async (exchange) => {
    decide(await take(limiter, `portal ${findClient(exchange)}`));
    return next(exchange);
  };
};

/** Finds out which client asks: without proxies, once for each connection. */
const clientFinder = (trustedProxies: TrustedProxies | null) => {
  const clients = new WeakMap<Socket, string>();
  return ({ incoming }: Exchange): string => {
    const { socket } = incoming;
    if (trustedProxies) {
      return clientOf(socket.remoteAddress, String(incoming.headers["x-forwarded-for"] ?? ""), trustedProxies);
    }
    let client = clients.get(socket);
    if (client === undefined) {
      client = clientOf(socket.remoteAddress, undefined, null);
      clients.set(socket, client);
    }
    return client;
  };
};

const take = (limiter: Limiter, client: string): Decision | Promise<Decision> => {
  try {
    const decision = limiter.take(client);
    return decision instanceof Promise ? decision.catch(explain) : decision;
  } catch (error) {
    return explain(error);
  }
};

const explain = (error: unknown): never => {
  if (!(error instanceof WindowFullError)) throw error;
  throw overloaded("More clients ask than can be told apart. Try again in a moment, or with an API key.");
};

/** Keeps what was made of each number. There are no more of them than a window has seconds. */
const once = <Made>(make: (seconds: number) => Made): ((seconds: number) => Made) => {
  const made = new Map<number, Made>();
  return (seconds) => {
    const kept = made.get(seconds) ?? make(seconds);
    made.set(seconds, kept);
    return kept;
  };
};

const tooManyRequests = ({ requests, windowMs }: Limit, seconds: number) =>
  new Problem(
    "rate-limited",
    `Without an API key, ${requests} requests in ${windowMs / 1000} s are answered. Ask again in ${seconds} s.`,
    { headers: { "Retry-After": String(seconds) } },
  );
