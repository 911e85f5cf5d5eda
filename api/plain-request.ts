import type { Socket } from "node:net";
import type { Incoming } from "./exchange.ts";

/**
 * A GET and its headers, and nothing after them. Less than HTTP allows: no character that could mean something else to
 * somebody else, no line that goes on in the next, no space where there need not be one, no more headers than anybody needs.
 */
const PLAIN = /^GET \/[\w\-./?&=%+,:;~@!$'()*]* HTTP\/1\.1\r\n(?:[A-Za-z][\w-]*:[\t\x20-\x7e]*\r\n){1,100}\r\n$/;
const METHOD = "GET ";
const VERSION = " HTTP/1.1";
const LINE_END = "\r\n";

/** With one of these there is more to a request than its headers, or to its connection, or to themselves. */
const NOT_PLAIN = new Set([
  "content-length",
  "expect",
  "http2-settings",
  "keep-alive",
  "proxy-connection",
  "set-cookie",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/**
 * Reads what has come over a connection, if it is a whole request, and as plain as nearly all are. Otherwise it is null,
 * and up to Node's own parser.
 */
export const readPlainRequest = (bytes: Buffer, socket: Socket): Incoming | null => {
  const text = bytes.toString("latin1");
  if (!PLAIN.test(text)) return null;
  const lineEnd = text.indexOf(LINE_END);
  const headers: Record<string, string> = {};
  let start = lineEnd + LINE_END.length;
  while (start < text.length - LINE_END.length) {
    const end = text.indexOf(LINE_END, start);
    const colon = text.indexOf(":", start);
    const name = text.slice(start, colon).toLowerCase();
    const value = text.slice(colon + 1, end).trim();
    // Of a header that comes twice, only one may count. Names that every object has are not for a header, either.
    if (name in headers || NOT_PLAIN.has(name)) return null;
    if (name === "connection" && value.toLowerCase() !== "keep-alive") return null;
    headers[name] = value;
    start = end + LINE_END.length;
  }
  const url = text.slice(METHOD.length, lineEnd - VERSION.length);
  return { method: "GET", url, httpVersion: "1.1", headers, socket };
};
