import { BlockList } from "node:net";
import type { ApiContext } from "../context.ts";
import { isPeerListed, type TrustedProxies } from "../limits/client-address.ts";
import { Problem } from "../problem.ts";
import { canNameSite, type Site } from "./sign-in-message.ts";

/** Hosts that are the client's own machine. No other site can be at them. */
const LOOPBACK_HOST = /^(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3})(:\d{1,5})?$/i;

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");

/** Headers that proxies add; each adds at least one of them. */
const PROXY_HEADER = /^(forwarded|via|x-forwarded.*|x-real-ip|x-original-.*|x-envoy-.*|cf-.*|.*client-ip)$/;

type SiteSettings = { publicUrl: string | null; trustedProxies: TrustedProxies | null };

/**
 * Finds the origin of the developer page. Never trusts the Host header: a site with another name could relay to us what
 * people sign for that name, and any client can send "Host: localhost". Without PUBLIC_URL, the page works in browsers on
 * this machine only.
 * @returns null if nobody can sign in
 */
export const findSite = (c: ApiContext, { publicUrl, trustedProxies }: SiteSettings): Site | null => {
  if (publicUrl !== null) return { origin: publicUrl };
  const host = c.req.header("Host") ?? "";
  const site = { origin: `http://${host.toLowerCase()}` };
  return isFromThisMachine(c, trustedProxies) && LOOPBACK_HOST.test(host) && canNameSite(site) ? site : null;
};

/** Returns true if a client on this machine sent the request, and no proxy that gives itself away. */
const isFromThisMachine = (c: ApiContext, trustedProxies: TrustedProxies | null): boolean => {
  const { socket, headers, httpVersion } = c.env.incoming;
  const isListed = (list: BlockList | null) => isPeerListed(socket.remoteAddress, list);
  const isProxied = Object.keys(headers).some((name) => PROXY_HEADER.test(name));
  // Browsers do not speak HTTP/1.0; some proxies do.
  return isListed(LOOPBACK) && !isListed(trustedProxies) && !isProxied && httpVersion === "1.1";
};

/** Requires that the request comes from our own page. Returns its site. */
export const requireOwnPage = (c: ApiContext, settings: SiteSettings): Site => {
  const site = findSite(c, settings);
  if (!site) {
    throw new Problem(
      "sign-in-refused",
      "Nobody can sign in here yet: the operator must set PUBLIC_URL to the address of this service. Without it, only a browser on its own machine can, not through a proxy.",
    );
  }
  requireSameOrigin(c, site);
  return site;
};

/**
 * Rejects requests from pages of other sites, whatever their cookies. Browsers send an Origin with every request that
 * changes something: without one, the request is not from our page.
 */
export const requireSameOrigin = (c: ApiContext, { origin }: Site): void => {
  const fetchSite = c.req.header("Sec-Fetch-Site");
  const requestOrigin = c.req.header("Origin");
  const isRead = c.req.method === "GET" || c.req.method === "HEAD";
  const isSameOrigin = requestOrigin === undefined ? isRead : requestOrigin === origin;
  if (isSameOrigin && (fetchSite === undefined || fetchSite === "same-origin")) return;
  throw new Problem("cross-site", `Only the page at ${origin}/developers may send this request.`);
};
