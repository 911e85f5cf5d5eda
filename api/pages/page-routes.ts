import { hash } from "node:crypto";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { accepts } from "hono/accepts";
import type { Asset, Assets } from "../../web/build.ts";
import type { PageName, SitePage } from "../../web/pages.ts";
import { ASSETS_PATH, renderShell } from "../../web/shell.ts";
import type { ApiApp, ApiContext } from "../context.ts";
import { addRoute } from "../contract/add-operation.ts";
import { respondNotModified } from "../middleware/respond-not-modified.ts";
import { Problem } from "../problem.ts";
import { respond } from "../respond.ts";

const SECURITY_HEADERS = {
  // Pages load nothing from other origins, and run neither foreign nor inline scripts.
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
};
/** For pages: browsers cache them and revalidate each time. The names of their assets change with the content. */
const REVALIDATED = "no-cache";
const IMMUTABLE = "public, max-age=31536000, immutable";

const TYPES: Record<string, string> = {
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
};

/**
 * Adds the pages and their assets. They do not count against the rate limit: they come from memory, without a database
 * query, and cost no more than a rejection. Requests of pages to /registry count.
 *
 * @param pages - the pages of this service
 * @param contents - HTML of a page before its script runs
 */
export const addPages = (
  app: ApiApp,
  assets: Assets,
  pages: readonly SitePage[],
  contents: Partial<Record<PageName, string>>,
): void => {
  const notModified = respondNotModified(Object.keys(SECURITY_HEADERS));
  for (const { name, path } of pages) {
    const html = Buffer.from(
      renderShell(assets, pages, name, contents[name] ?? '<main id="content" tabindex="-1"></main>'),
    );
    addRoute(app, path, notModified, serveAsset(compress(html), "text/html; charset=utf-8", REVALIDATED));
  }
  const files = new Map(
    [...assets.files].map(([name, asset]) => [
      name,
      serveAsset(asset, TYPES[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream", IMMUTABLE),
    ]),
  );
  addRoute(app, `${ASSETS_PATH}/:file`, notModified, (c) => {
    const file = files.get(c.req.param("file") ?? "");
    if (!file) throw new Problem("not-found", "This file does not exist. Reload the page: it is from another version.");
    return file(c);
  });
};

/** Compresses fast rather than well: it runs at each start. */
const compress = (content: Buffer): Asset => ({
  content,
  brotli: brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }),
  gzip: gzipSync(content),
});

/** Prefers the smallest encoding, whatever the order in the header. */
const ENCODINGS: Parameters<typeof accepts>[1] = {
  header: "Accept-Encoding",
  supports: ["br", "gzip"],
  default: "identity",
  match: (accepted, { supports, default: plain }) =>
    supports.find((encoding) => accepted.some(({ type, q }) => type === encoding && q > 0)) ?? plain,
};

/** Creates a handler that serves an asset in the smallest encoding that the browser accepts. */
const serveAsset = (asset: Asset, type: string, cacheControl: string) => {
  const contentHash = hash("sha256", asset.content, "base64url").slice(0, 22);
  const encode = (body: Buffer, encoding: string) => ({
    body: body as Buffer<ArrayBuffer>,
    headers: {
      ...SECURITY_HEADERS,
      "Cache-Control": cacheControl,
      Vary: "Accept-Encoding",
      ETag: `"${contentHash}-${encoding}"`,
      "Content-Type": type,
      ...(encoding !== "identity" && { "Content-Encoding": encoding }),
    },
  });
  const encoded = {
    br: encode(asset.brotli, "br"),
    gzip: encode(asset.gzip, "gzip"),
    identity: encode(asset.content, "identity"),
  };
  return (c: ApiContext): Response => {
    const { body, headers } = encoded[accepts(c, ENCODINGS) as keyof typeof encoded];
    return respond(c, 200, body, headers);
  };
};
