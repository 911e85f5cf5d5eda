import type { Incoming } from "./exchange.ts";

/** Nothing in it could mean something else than it says. */
const PLAIN_PATH = /^\/[\w/-]*(?=[?#]|$)/;
const HOST = /^(?:[\w.-]+|\[[\da-f:.]+\])(?::(\d{1,5}))?$/i;
const HIGHEST_PORT = 65_535;

/** The path that a request asks for; null if that cannot be read. A slash at its end makes no difference. */
export const readPath = ({ url = "", headers, httpVersion }: Incoming): string | null => {
  // HTTP 1.0 does without a host, as in old health checks.
  if (!(headers.host === undefined ? httpVersion === "1.0" : isHost(headers.host))) return null;
  const path = PLAIN_PATH.exec(url)?.[0] ?? readUnusualPath(url);
  return path !== null && path.length > 1 && path.endsWith("/") ? path.slice(0, -1) : path;
};

const isHost = (host: string): boolean => {
  const parts = HOST.exec(host);
  return parts !== null && Number(parts[1] ?? 0) <= HIGHEST_PORT;
};

/** One with dots or escapes; or a whole URL, as proxies send it. */
const readUnusualPath = (target: string): string | null => {
  const url = target.startsWith("/") ? `http://localhost${target}` : target;
  const [beforeQuery = ""] = url.split("?", 1);
  // To a URL of the web, a backslash would be a slash.
  if (!/^https?:\/\//i.test(url) || beforeQuery.includes("\\") || !URL.canParse(url)) return null;
  const { pathname } = new URL(url);
  try {
    return decodeURI(pathname);
  } catch {
    return pathname;
  }
};
