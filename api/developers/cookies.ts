import { hash, randomBytes } from "node:crypto";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import type { ApiContext } from "../context.ts";
import type { Site } from "./sign-in-message.ts";

// A browser is identified by 256 random bits in a cookie that no script can read and no other site can make it send.
// Only a hash of them is stored.

/** `sign-in`: identifies a browser during a sign-in. `session`: identifies it while it is signed in. */
type Purpose = "sign-in" | "session";

const TOKEN = /^[\w-]{43}$/;

/** Names a cookie. Browsers reject `__Host-` cookies from other hosts or subdomains, and without TLS. */
const cookieName = (purpose: Purpose, site: Site): string =>
  isSecure(site) ? `__Host-${purpose}` : `delegations-${purpose}`;

const isSecure = ({ origin }: Site): boolean => origin.startsWith("https:");

const cookieOptions = (site: Site) =>
  ({ path: "/", httpOnly: true, sameSite: "Strict", secure: isSecure(site) }) as const;

const hashToken = (token: string): string => hash("sha256", token);

/** Sets a cookie with a new token. @returns the token's hash */
export const createCookie = (c: ApiContext, purpose: Purpose, site: Site, seconds: number): string => {
  const token = randomBytes(32).toString("base64url");
  setCookie(c, cookieName(purpose, site), token, { ...cookieOptions(site), maxAge: seconds });
  return hashToken(token);
};

export const removeCookie = (c: ApiContext, purpose: Purpose, site: Site): void => {
  deleteCookie(c, cookieName(purpose, site), cookieOptions(site));
};

/** @returns the token's hash; null without a token */
export const readCookie = (c: ApiContext, purpose: Purpose, site: Site): string | null => {
  const token = getCookie(c, cookieName(purpose, site)) ?? "";
  return TOKEN.test(token) ? hashToken(token) : null;
};
