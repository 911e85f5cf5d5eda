import { hash, randomBytes } from "node:crypto";
import type { Incoming } from "../exchange.ts";
import type { Site } from "./sign-in-message.ts";

// What a browser is known by: 256 random bits in a cookie that no script can read and no other site can have sent.
// Only its hash is stored.

/** `sign-in`: the browser that began to sign in. `session`: the one that is signed in. */
type Purpose = "sign-in" | "session";

const TOKEN = /^[\w-]{43}$/;

/** The prefix makes browsers refuse the cookie from another host, a subdomain, or without TLS. */
const nameOf = (purpose: Purpose, { origin }: Site): string =>
  isSecure(origin) ? `__Host-${purpose}` : `delegations-${purpose}`;

const isSecure = (origin: string): boolean => origin.startsWith("https:");

const hashToken = (token: string): string => hash("sha256", token);

/** A new token, as the header that sets it and as it is stored. */
export const createCookie = (purpose: Purpose, site: Site, seconds: number): { header: string; stored: string } => {
  const token = randomBytes(32).toString("base64url");
  return { header: writeCookie(purpose, site, token, seconds), stored: hashToken(token) };
};

/** The header that makes a browser forget it. */
export const removeCookie = (purpose: Purpose, site: Site): string => writeCookie(purpose, site, "", 0);

const writeCookie = (purpose: Purpose, site: Site, value: string, seconds: number): string =>
  `${nameOf(purpose, site)}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${isSecure(site.origin) ? "; Secure" : ""}`;

/** As what it is stored; null where the request has none. */
export const readCookie = ({ headers }: Incoming, purpose: Purpose, site: Site): string | null => {
  const start = `${nameOf(purpose, site)}=`;
  const cookie = headers.cookie?.split("; ").find((each) => each.startsWith(start));
  const token = cookie?.slice(start.length) ?? "";
  return TOKEN.test(token) ? hashToken(token) : null;
};
