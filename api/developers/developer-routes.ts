import { randomBytes } from "node:crypto";
import { z } from "@hono/zod-openapi";
import { networkName } from "../../registry/networks.ts";
import type { ApiApp, ApiContext, ApiMiddleware } from "../context.ts";
import { createJsonReader } from "../contract/read-json.ts";
import type { Database } from "../database/database.ts";
import { overloaded } from "../database/problems.ts";
import { generateStoredKey, prefixOf } from "../keys/api-key.ts";
import { isOwnerBlocked } from "../keys/blocked-owners.ts";
import type { KeyDirectory } from "../keys/key-directory.ts";
import { keyName } from "../keys/key-name.ts";
import type { TrustedProxies } from "../limits/client-address.ts";
import { methodNotAllowed, Problem } from "../problem.ts";
import { respond, respondJson } from "../respond.ts";
import { accountBlocked, formatOwner, parseOwner } from "./account.ts";
import { createCookie, readCookie, removeCookie } from "./cookies.ts";
import { insertOwnedKey, listOwnedKeys, type OwnedKey, revokeOwnedKey } from "./owned-keys.ts";
import { deleteSession, findSession, insertSession, insertSignIn, type StoredSession, takeSignIn } from "./sessions.ts";
import { formatSignInMessage, SIGN_IN_MS, type Site } from "./sign-in-message.ts";
import { findSite, requireOwnPage, requireSameOrigin } from "./site.ts";
import type { ContractVerification } from "./verify-signature.ts";
import { addWebhookRoutes, type OwnersWebhooks } from "./webhook-routes.ts";

/** Dependencies of the developer page. */
export type DeveloperPage = {
  /** Stores keys and sessions: never a replica. */
  database: Database;
  keys: KeyDirectory;
  contracts: ContractVerification;
  /** Public origin of the service; null: people can sign in from its own machine only. */
  publicUrl: string | null;
  keysPerWallet: number;
  trustedProxies: TrustedProxies | null;
  /** Null: the page says nothing of webhooks. */
  webhooks: OwnersWebhooks | null;
};

const SESSION_SECONDS = 12 * 3600;
/** Days of a key's usage, including today. */
const USAGE_DAYS = 30;
/** Times that a wallet may replace all of its keys within a day. */
const REPLACEMENTS_PER_DAY = 4;

const Challenge = z.object({
  address: z.templateLiteral(["0x", z.string().regex(/^[0-9a-fA-F]{40}$/)], { error: "must be 0x and 40 hex digits" }),
  chainId: z.int({ error: "must be a chain id" }).min(1, { error: "must be a chain id" }),
});

const SignedMessage = z.object({
  message: z.string({ error: "must be the message that was signed" }).max(2_000, {
    error: "must be the message that was signed, which is shorter",
  }),
  /** With the message, as much as fits into a body. */
  signature: z.templateLiteral(["0x", z.string().regex(/^[0-9a-fA-F]{0,30000}$/)], {
    error: "must be 0x and at most 30,000 hex digits",
  }),
});

const NewKey = z.object({ name: keyName });

/** Up to several times the largest signature of a contract wallet. */
const readJson = createJsonReader(32_768);

/** Path of the developer page's routes. */
export const DEVELOPER_ROUTES = "/developers/api/*";

/** Keeps every response of these routes to our own pages, refusals included. */
export const keepPrivate: ApiMiddleware = async (c, next) => {
  c.set("isPrivate", true);
  await next();
};

/** Adds the routes of the developer page: sign-in, and the keys of the signed-in wallet. */
export const addDeveloperRoutes = (app: ApiApp, page: DeveloperPage, admitRequest: ApiMiddleware): void => {
  app.all("/developers/api/challenge", allowOwnPages("POST"), admitRequest);
  addChallengeRoute(app, page);
  app.all("/developers/api/session", allowOwnPages("GET", "POST", "DELETE"), admitRequest);
  addSessionRoutes(app, page);
  app.all("/developers/api/keys", allowOwnPages("GET", "POST"), admitRequest);
  app.all("/developers/api/keys/:prefix", allowOwnPages("DELETE"), admitRequest);
  addKeyRoutes(app, page);
  const { database, webhooks } = page;
  if (!webhooks) return;
  const parts = { database, webhooks, requireOwner: (c: ApiContext) => requireOwner(c, page) };
  addWebhookRoutes(app, parts, { admitRequest, allowOwnPages });
};

const addChallengeRoute = (app: ApiApp, page: DeveloperPage): void => {
  const { database } = page;
  app.post("/developers/api/challenge", async (c) => {
    const site = requireOwnPage(c, page);
    const { address, chainId } = await readJson(c, Challenge);
    const nonce = randomBytes(16).toString("hex");
    const seconds = SIGN_IN_MS / 1000;
    const browser = createCookie(c, "sign-in", site, seconds);
    const message = formatSignInMessage(site, { address, chainId, nonce }, new Date());
    await insertSignIn(database, { nonce, message, browser, wallet: address, chainId, seconds });
    return respondJson(c, { message });
  });
};

const addSessionRoutes = (app: ApiApp, page: DeveloperPage): void => {
  const { database } = page;
  const offered = page.webhooks ? { hasWebhooks: true } : {};
  // The page asks before it knows whether anyone is signed in, so no session is no error.
  app.get("/developers/api/session", async (c) => {
    const site = findSite(c, page);
    if (site) requireSameOrigin(c, site);
    const session = site && (await readSession(c, database, site));
    return respondJson(c, { origin: site?.origin ?? null, session: session && sessionJson(session), ...offered });
  });

  app.post("/developers/api/session", async (c) => {
    const site = requireOwnPage(c, page);
    const owner = await verifyOwner(c, page, site);
    const before = readCookie(c, "session", site);
    const token = createCookie(c, "session", site, SESSION_SECONDS);
    const expiresAt = await insertSession(database, { token, before, owner, seconds: SESSION_SECONDS });
    return respondJson(c, { origin: site.origin, session: sessionJson({ owner, expiresAt }), ...offered });
  });

  app.delete("/developers/api/session", async (c) => {
    const site = requireOwnPage(c, page);
    const token = readCookie(c, "session", site);
    if (token !== null) await deleteSession(database, token);
    removeCookie(c, "session", site);
    return respond(c, 204, null);
  });
};

const addKeyRoutes = (app: ApiApp, page: DeveloperPage): void => {
  const { database, keys, keysPerWallet } = page;
  app.get("/developers/api/keys", async (c) => {
    const owner = await requireOwner(c, page);
    const owned = await listOwnedKeys(database, { owner, days: USAGE_DAYS });
    const isBlocked = await isOwnerBlocked(database, owner);
    return respondJson(c, { isBlocked, keysPerWallet, usageDays: USAGE_DAYS, keys: owned.map(keyJson) });
  });

  app.post("/developers/api/keys", async (c) => {
    const owner = await requireOwner(c, page);
    const { name } = await readJson(c, NewKey);
    const key = await createKey(page, owner, name);
    const [created] = await listOwnedKeys(database, { owner, days: USAGE_DAYS, prefix: prefixOf(key) });
    return respondJson(c, { key, ...(created && keyJson(created)) }, {}, 201);
  });

  app.delete("/developers/api/keys/:prefix", async (c) => {
    const owner = await requireOwner(c, page);
    const hash = await revokeOwnedKey(database, { owner, prefix: c.req.param("prefix") });
    // The same response for keys of other wallets: nobody learns which keys exist.
    if (hash === null) throw new Problem("not-found", "This wallet has no key with this prefix.");
    keys.forget(hash);
    return respond(c, 204, null);
  });
};

const readSession = async (c: ApiContext, database: Database, site: Site): Promise<StoredSession | null> => {
  const token = readCookie(c, "session", site);
  return token === null ? null : findSession(database, token);
};

const requireOwner = async (c: ApiContext, page: DeveloperPage): Promise<string> => {
  const session = await readSession(c, page.database, requireOwnPage(c, page));
  if (session) return session.owner;
  throw new Problem("not-signed-in", "You are not signed in, or your session has ended. Sign in again.");
};

/** Verifies a signed message. Returns the owner that it signs in. */
const verifyOwner = async (c: ApiContext, { database, contracts }: DeveloperPage, site: Site): Promise<string> => {
  const { message, signature } = await readJson(c, SignedMessage);
  const browser = readCookie(c, "sign-in", site);
  // Taken before the signature is verified: each message has one attempt.
  const pending = browser && (await takeSignIn(database, { message, browser }));
  if (!pending) {
    throw new Problem(
      "sign-in-refused",
      "This is not the message of this browser's sign-in, or the sign-in has expired or was used already. Start again, and sign the message unchanged.",
    );
  }
  const { wallet: address, chainId } = pending;
  // Loads viem at the first sign-in: it takes longer to load than the rest of the API.
  const { verifySignature } = await import("./verify-signature.ts");
  return formatOwner(
    await verifySignature({ message, signature, address, chainId }, c.get("caller").client, contracts),
  );
};

const createKey = async ({ database, keysPerWallet }: DeveloperPage, owner: string, name: string): Promise<string> => {
  const limits = { maxKeys: keysPerWallet, maxKeysPerDay: keysPerWallet * REPLACEMENTS_PER_DAY };
  const key = await generateStoredKey(async (stored) => {
    const insertion = await insertOwnedKey(database, { ...stored, name, owner }, limits);
    if (insertion.outcome === "blocked") throw accountBlocked("keys");
    if (insertion.outcome === "too many today") throw tooManyKeysToday(limits.maxKeysPerDay, insertion.secondsToNext);
    if (insertion.outcome === "too many") {
      throw new Problem("too-many-keys", `A wallet may have ${keysPerWallet} keys here. Revoke one to make another.`);
    }
    return insertion.outcome === "inserted";
  });
  if (key === null) throw overloaded("No key could be made: others were made at the same time. Try again in a moment.");
  return key;
};

const tooManyKeysToday = (maxKeys: number, seconds: number) => {
  const time = new Date(Date.now() + seconds * 1000).toISOString().slice(0, 16).replace("T", " ");
  return new Problem("rate-limited", `A wallet may make ${maxKeys} keys a day here. Try again after ${time} UTC.`, {
    headers: { "Retry-After": String(seconds) },
  });
};

const sessionJson = ({ owner, expiresAt }: StoredSession) => {
  const { address, chainId } = parseOwner(owner);
  return { address, network: chainId && networkName(chainId), expiresAt: expiresAt.toISOString() };
};

const keyJson = ({ name, prefix, createdAt, revokedAt, lastUsedAt, requests, days }: OwnedKey) => ({
  name,
  prefix,
  createdAt: createdAt.toISOString(),
  revokedAt: revokedAt?.toISOString() ?? null,
  lastUsedAt: lastUsedAt?.toISOString() ?? null,
  requests: Number(requests),
  days,
});

/** Restricts a route to our own pages and to some methods. Preflights of other origins get a 405 like any other method. */
const allowOwnPages =
  (...methods: string[]): ApiMiddleware =>
  async (c, next) => {
    if (!methods.includes(c.req.method)) throw methodNotAllowed(methods);
    await next();
  };
