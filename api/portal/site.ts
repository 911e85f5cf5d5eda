import type { ApiContext } from "../context.ts";
import { Problem } from "../problem.ts";
import { canNameSite, type Site } from "./sign-in-message.ts";

/** Hosts that are this machine for whoever asks. No other page can be at them. */
const LOOPBACK = /^(localhost|127\.\d{1,3}\.\d{1,3}\.\d{1,3})(:\d{1,5})?$/i;

/**
 * Where the page of a request is. Never what its Host header says: behind another name, somebody could pass on to us
 * what people sign for that name. Only this machine itself needs no setting.
 * @param publicUrl - PUBLIC_URL, if it is set
 * @returns null where nobody can sign in
 */
export const findSite = (c: ApiContext, publicUrl: string | null): Site | null => {
  if (publicUrl !== null) return { origin: publicUrl };
  const host = c.req.header("Host") ?? "";
  const site = { origin: `http://${host.toLowerCase()}` };
  return LOOPBACK.test(host) && canNameSite(site) ? site : null;
};

/** The same for who is about to change something, and has to be told what is missing. */
export const requireSite = (site: Site | null): Site => {
  if (site) return site;
  throw new Problem(
    "sign-in-refused",
    "Nobody can sign in here yet: the operator has to set PUBLIC_URL to the address of this service.",
  );
};

/**
 * Refuses what another site's page has sent, whatever cookies came with it. Browsers name the origin of every request
 * that changes something; what names none comes from no page.
 */
export const requireSameOrigin = (c: ApiContext, { origin }: Site): void => {
  const fetchSite = c.req.header("Sec-Fetch-Site");
  const given = c.req.header("Origin");
  const isRead = c.req.method === "GET" || c.req.method === "HEAD";
  const isFromHere = given === undefined ? isRead : given === origin;
  if (isFromHere && (fetchSite === undefined || fetchSite === "same-origin")) return;
  throw new Problem("cross-site", `Only the page at ${origin}/developers may ask this.`);
};
