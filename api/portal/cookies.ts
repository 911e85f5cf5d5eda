import { hash, randomBytes } from "node:crypto";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import type { ApiContext } from "../context.ts";
import type { Site } from "./sign-in-message.ts";

// What a browser is known by: 256 random bits in a cookie that no script can read and no other site can have sent.
// Only its hash is stored.

/** `sign-in`: the browser that began to sign in. `session`: the one that is signed in. */
type Purpose = "sign-in" | "session";

const TOKEN = /^[\w-]{43}$/;

/** The prefix makes browsers refuse the cookie from another host, a subdomain, or without TLS. */
const nameOf = (purpose: Purpose, site: Site): string =>
  isSecure(site) ? `__Host-${purpose}` : `delegations-${purpose}`;

const isSecure = ({ origin }: Site): boolean => origin.startsWith("https:");

const optionsOf = (site: Site) => ({ path: "/", httpOnly: true, sameSite: "Strict", secure: isSecure(site) }) as const;

const hashToken = (token: string): string => hash("sha256", token);

/** Gives the browser a new token. @returns what is stored of it */
export const createCookie = (c: ApiContext, purpose: Purpose, site: Site, seconds: number): string => {
  const token = randomBytes(32).toString("base64url");
  setCookie(c, nameOf(purpose, site), token, { ...optionsOf(site), maxAge: seconds });
  return hashToken(token);
};

/** Makes the browser forget it. */
export const removeCookie = (c: ApiContext, purpose: Purpose, site: Site): void => {
  deleteCookie(c, nameOf(purpose, site), optionsOf(site));
};

/** As what it is stored; null where the request has none. */
export const readCookie = (c: ApiContext, purpose: Purpose, site: Site): string | null => {
  const token = getCookie(c, nameOf(purpose, site)) ?? "";
  return TOKEN.test(token) ? hashToken(token) : null;
};
