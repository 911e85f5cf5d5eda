import type { Socket } from "node:net";
import type { ApiContext, ApiMiddleware, Caller } from "../context.ts";
import type { KeyDirectory, KeyLookup } from "../keys/key-directory.ts";
import { identifyClient, type TrustedProxies } from "../limits/client-address.ts";
import { type Limit, SlidingWindow } from "../limits/sliding-window.ts";
import { refuse, tooManyRequests } from "./refuse.ts";

/** Paths on which an API key counts. v1 has no keys, and ignores the header. */
const TAKES_KEY = /^\/(registry\/(v2\/|checks)|wallets\/|changes)/;
/** Unknown keys of an address that are looked up. More if the rate limit is higher. */
const UNKNOWN_KEYS = { requests: 25, windowMs: 10_000 };

type Identification = {
  keys: KeyDirectory;
  limit: Limit;
  trustedProxies: TrustedProxies | null;
  now?: (() => number) | undefined;
};

/** Finds out who sent a request: the address of the client, and its API key. */
export const identify = ({ keys, limit, trustedProxies, now }: Identification): ApiMiddleware => {
  const findClient = createClientFinder(trustedProxies);
  const lookups = new SlidingWindow(limit.requests > UNKNOWN_KEYS.requests ? limit : UNKNOWN_KEYS, now);

  const findKey = async (text: string, client: string, connection: Socket): Promise<KeyLookup> => {
    const cached = keys.findCached(text, connection);
    if (cached) return cached;
    // A key in use takes a query a minute, whatever made-up ones come beside it.
    if (keys.isExpected(text)) return keys.find(text, connection);
    // Counted before the query, so that a flood causes no more of them.
    const { isAdmitted, resetMs } = lookups.take(client);
    if (!isAdmitted) return refuse(tooManyKeys(resetMs));
    let isUnknown = false;
    try {
      const key = await keys.find(text, connection);
      isUnknown = !key.isKnown;
      return key;
    } finally {
      if (!isUnknown) lookups.giveBack(client);
    }
  };

  return async (c, next) => {
    const client = findClient(c);
    const text = TAKES_KEY.test(c.req.path) ? c.req.header("X-API-KEY") : undefined;
    // A preflight has no key.
    const key = text && c.req.method !== "OPTIONS" ? await findKey(text, client, c.env.incoming.socket) : null;
    c.set("caller", describeCaller(client, key));
    return next();
  };
};

const describeCaller = (client: string, key: KeyLookup | null): Caller => {
  if (key === null) return { client, key };
  if (!key.isKnown) return { client, key: null, keyProblem: key.reason };
  return { client, key: { id: key.id, owner: key.owner ?? `key ${key.id}` } };
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

const tooManyKeys = (resetMs: number) => tooManyRequests(resetMs, "Too many new API keys came from this address.");
