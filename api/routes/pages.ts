import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Asset, Assets } from "../../web/build.ts";
import type { PageName, PageOf } from "../../web/pages.ts";
import { ASSETS_PATH, renderShell } from "../../web/shell.ts";
import { etagOf, hasAlready } from "../etag.ts";
import { type Exchange, type Handler, type Reply, respond } from "../exchange.ts";
import { Problem } from "../problem.ts";
import type { Routes } from "./routes.ts";

const SECURITY = {
  // Nothing is loaded from anywhere else, nobody else's script runs here, and nothing that stands in a page does.
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
};
/** Of a page: kept, and asked about each time. The names of what it loads tell whether that is the same. */
const REVALIDATED = "no-cache";
const IMMUTABLE = "public, max-age=31536000, immutable";

const TYPES: Record<string, string> = {
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
};

/**
 * The pages for people, and what they load. They do not count against the rate limit: all of it is in memory, no
 * database is asked, and an answer costs no more than a refusal would. What pages ask of /registry counts.
 *
 * @param pages - those that this service has
 * @param contents - what stands in a page before its script runs
 */
export const addPages = (
  routes: Routes,
  assets: Assets,
  pages: readonly PageOf[],
  contents: Partial<Record<PageName, string>>,
): void => {
  for (const { name, path } of pages) {
    const html = Buffer.from(
      renderShell(assets, pages, name, contents[name] ?? '<main id="content" tabindex="-1"></main>'),
    );
    routes.get(path, answerWith(compress(html), "text/html; charset=utf-8", REVALIDATED));
  }
  const files = new Map(
    [...assets.files].map(([name, asset]) => [
      name,
      answerWith(asset, TYPES[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream", IMMUTABLE),
    ]),
  );
  routes.get(`${ASSETS_PATH}/{file}`, (exchange) => {
    const file = files.get(exchange.varying);
    if (!file) throw new Problem("not-found", "There is no such file. A page that asks for it is of another version.");
    return file(exchange);
  });
};

/** Quick rather than small: it is done at each start. */
const compress = (content: Buffer): Asset => ({
  content,
  brotli: brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }),
  gzip: gzipSync(content),
});

/** Answers with the smallest form of a content that a browser takes, or that it has it already. */
const answerWith = (asset: Asset, type: string, caching: string): Handler => {
  const form = (body: Buffer, encoding: string) => {
    const etag = etagOf(asset.content, encoding);
    const headers = { ...SECURITY, "Cache-Control": caching, Vary: "Accept-Encoding", ETag: etag };
    return {
      body,
      etag,
      known: headers,
      headers: { ...headers, "Content-Type": type, ...(encoding !== "plain" && { "Content-Encoding": encoding }) },
    };
  };
  const forms = { br: form(asset.brotli, "br"), gzip: form(asset.gzip, "gzip"), plain: form(asset.content, "plain") };

  return (exchange: Exchange): Reply => {
    const { incoming } = exchange;
    const { body, etag, known, headers } = forms[chooseEncoding(String(incoming.headers["accept-encoding"] ?? ""))];
    return hasAlready(incoming, etag) ? respond(exchange, 304, null, known) : respond(exchange, 200, body, headers);
  };
};

/** Names an encoding that is taken. What browsers send has no weights but for zero, which refuses one. */
const taking = (name: string) => new RegExp(`(?:^|[,\\s])${name}\\s*(?:,|$|;\\s*q=(?!0(?:\\.0*)?\\s*(?:,|$)))`);
const TAKES_BROTLI = taking("br");
const TAKES_GZIP = taking("gzip");

const chooseEncoding = (accepted: string): "br" | "gzip" | "plain" => {
  if (TAKES_BROTLI.test(accepted)) return "br";
  return TAKES_GZIP.test(accepted) ? "gzip" : "plain";
};
