import { randomBytes } from "node:crypto";
import { z } from "@hono/zod-openapi";
import { networkName } from "../../registry/networks.ts";
import type { ApiApp, ApiContext, ApiMiddleware } from "../context.ts";
import type { Database } from "../database.ts";
import { generateKey, hashKey, prefixOf } from "../keys/api-key.ts";
import type { KeyDirectory } from "../keys/key-directory.ts";
import { accountOf, ownerOf } from "../portal/account.ts";
import { createCookie, readCookie, removeCookie } from "../portal/cookies.ts";
import { readJson } from "../portal/read-json.ts";
import { refused } from "../portal/refused.ts";
import { readSignInMessage, SIGN_IN_MS, type Site, writeSignInMessage } from "../portal/sign-in-message.ts";
import { findSite, requireSameOrigin, requireSite } from "../portal/site.ts";
import type { VerifySignature } from "../portal/verify-signature.ts";
import { methodNotAllowed, Problem } from "../problem.ts";
import { insertOwnedKey, listOwnedKeys, type OwnedKey, revokeOwnedKey } from "../queries/owned-keys.ts";
import { deleteSession, findSession, insertSession, type Session } from "../queries/sessions.ts";
import { insertSignIn, takeSignIn } from "../queries/sign-ins.ts";
import { respond, respondJson } from "../respond.ts";

/** What the developer page is made of. */
export type Portal = {
  /** Where keys and sessions are written: never a replica. */
  database: Database;
  keys: KeyDirectory;
  verify: VerifySignature;
  /** Where people reach the service; null: only from its own machine. */
  publicUrl: string | null;
  keysPerWallet: number;
};

const SESSION_SECONDS = 12 * 3600;
/** Of which the use of a key is told, today's included. */
const USAGE_DAYS = 30;

const Challenge = z.object({
  address: z.templateLiteral(["0x", z.string().regex(/^[0-9a-fA-F]{40}$/)], { error: "must be 0x and 40 hex digits" }),
  chainId: z.int({ error: "must be a chain id" }).min(1, { error: "must be a chain id" }),
});

const SignIn = z.object({
  message: z.string({ error: "must be the message that was signed" }),
  signature: z.templateLiteral(["0x", z.string().regex(/^[0-9a-fA-F]*$/)], { error: "must be hex" }),
});

const LONGEST_NAME = 64;
const NAME_ERROR = `must be 1 to ${LONGEST_NAME} characters on one line`;
const NewKey = z.object({
  name: z
    .string({ error: NAME_ERROR })
    .trim()
    .min(1, { error: NAME_ERROR })
    .max(LONGEST_NAME, { error: NAME_ERROR })
    .regex(/^\P{Cc}*$/u, { error: NAME_ERROR }),
});

/** What the developer page asks: who is signed in, and that wallet's keys. */
export const addPortal = (
  app: ApiApp,
  { database, keys, verify, publicUrl, keysPerWallet }: Portal,
  admitted: ApiMiddleware,
): void => {
  const siteOf = (c: ApiContext) => {
    const site = requireSite(findSite(c, publicUrl));
    requireSameOrigin(c, site);
    return site;
  };
  const sessionOf = async (c: ApiContext, site: Site): Promise<Session | null> => {
    const token = readCookie(c, "session", site);
    return token === null ? null : findSession(database, token);
  };
  const requireOwner = async (c: ApiContext): Promise<string> => {
    const session = await sessionOf(c, siteOf(c));
    if (session) return session.owner;
    throw new Problem("not-signed-in", "Nobody is signed in, or no longer. Sign in once more.");
  };

  app.all("/developers/api/challenge", privately("POST"), admitted);
  app.post("/developers/api/challenge", async (c) => {
    const site = siteOf(c);
    const { address, chainId } = await readJson(c, Challenge);
    const nonce = randomBytes(16).toString("hex");
    const seconds = SIGN_IN_MS / 1000;
    const browser = createCookie(c, "sign-in", site, seconds);
    await insertSignIn(database, { nonce, browser, wallet: address.toLowerCase(), chainId, seconds });
    const message = writeSignInMessage(site, { address, chainId, nonce }, new Date());
    return respondJson(c, { message });
  });

  app.all("/developers/api/session", privately("GET", "POST", "DELETE"), admitted);
  /** Answers whoever asks, as a page asks before it knows: that nobody is signed in is no error. */
  app.get("/developers/api/session", async (c) => {
    const site = findSite(c, publicUrl);
    if (site) requireSameOrigin(c, site);
    const session = site && (await sessionOf(c, site));
    return respondJson(c, {
      origin: site?.origin ?? null,
      session: session && sessionJson(session),
    });
  });

  app.post("/developers/api/session", async (c) => {
    const site = siteOf(c);
    const { message, signature } = await readJson(c, SignIn);
    const reading = readSignInMessage(message, site, new Date());
    if ("refusal" in reading) throw refused(reading.refusal);
    const { address, chainId, nonce } = reading.request;
    const browser = readCookie(c, "sign-in", site);
    // Whatever comes of it, the same message signs in nobody again.
    const begun = browser && (await takeSignIn(database, { nonce, browser }));
    if (!begun) throw refused("This sign-in is over, was used already, or was begun in another browser. Start again.");
    if (begun.wallet !== address.toLowerCase() || begun.chainId !== chainId) {
      throw refused("The message is not for the wallet and network that this sign-in was begun with.");
    }
    const owner = ownerOf(await verify({ message, signature, address, chainId }));
    const before = readCookie(c, "session", site);
    const token = createCookie(c, "session", site, SESSION_SECONDS);
    const expiresAt = await insertSession(database, { token, before, owner, seconds: SESSION_SECONDS });
    const session = sessionJson({ owner, expiresAt });
    return respondJson(c, { origin: site.origin, session });
  });

  app.delete("/developers/api/session", async (c) => {
    const site = siteOf(c);
    const token = readCookie(c, "session", site);
    if (token !== null) await deleteSession(database, token);
    removeCookie(c, "session", site);
    return respond(c, 204, null);
  });

  app.all("/developers/api/keys", privately("GET", "POST"), admitted);
  app.get("/developers/api/keys", async (c) => {
    const owner = await requireOwner(c);
    const owned = await listOwnedKeys(database, { owner, days: USAGE_DAYS });
    return respondJson(c, { keysPerWallet, usageDays: USAGE_DAYS, keys: owned.map(keyJson) });
  });

  app.post("/developers/api/keys", async (c) => {
    const owner = await requireOwner(c);
    const { name } = await readJson(c, NewKey);
    const key = await makeKey(owner, name);
    const [made] = await listOwnedKeys(database, { owner, days: USAGE_DAYS, prefix: prefixOf(key) });
    return respondJson(c, { key, ...(made && keyJson(made)) }, {}, 201);
  });

  const makeKey = async (owner: string, name: string): Promise<string> => {
    for (;;) {
      const key = generateKey();
      const outcome = await insertOwnedKey(
        database,
        { name, prefix: prefixOf(key), hash: hashKey(key), owner },
        keysPerWallet,
      );
      if (outcome === "made") return key;
      if (outcome === "too many") {
        throw new Problem("too-many-keys", `A wallet may have ${keysPerWallet} keys here. Revoke one to make another.`);
      }
    }
  };

  app.all("/developers/api/keys/:prefix", privately("DELETE"), admitted);
  app.delete("/developers/api/keys/:prefix", async (c) => {
    const owner = await requireOwner(c);
    const hash = await revokeOwnedKey(database, { owner, prefix: c.req.param("prefix") });
    // The same for a key of somebody else: nobody learns which there are.
    if (hash === null) throw new Problem("not-found", "This wallet has no such key.");
    keys.forget(hash);
    return respond(c, 204, null);
  });
};

const sessionJson = ({ owner, expiresAt }: Session) => {
  const { address, chainId } = accountOf(owner);
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

/** Answers our own pages alone. A browser that asks for another origin whether it may is refused like any method. */
const privately =
  (...methods: string[]): ApiMiddleware =>
  async (c, next) => {
    c.set("isPrivate", true);
    if (!methods.includes(c.req.method)) throw methodNotAllowed(methods);
    await next();
  };
